// What `stoa plan search` found, as a configuration.
#pragma once

#include "plan/search.h"
#include "train/run_config.h"

namespace stoa::cli {

// The configuration with a plan's layout, microbatch and recomputation, for nodes of `devices_per_node`.
train::RunConfig with_plan(train::RunConfig config, const plan::Found& found, std::int64_t devices_per_node);

}  // namespace stoa::cli
