// An estimate of the memory of another program, for people and as JSON.
#pragma once

#include <string>

#include "plan/workload.h"

namespace stoa::plan {

// `whose`: whose_bytes(). ConfigError if the workload cannot run.
std::string estimate_text(const Workload& w, std::string_view whose);
std::string estimate_json(const Workload& w, std::string_view whose);

}  // namespace stoa::plan
