// Devices whose names resemble one that is not known.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/cluster.h"

namespace stoa::plan {

// The nearest first, at most four: "H20-SXM-96GB (--cluster hgx-h20)". Empty: none is near.
std::vector<std::string> near_devices(std::span<const Cluster> clusters, const std::string& name);

}  // namespace stoa::plan
