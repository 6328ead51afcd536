// `stoa plan search`.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "plan/search.h"
#include "train/run_config.h"

namespace stoa::cli {

void add_plan_search_command(CLI::App& plan, Context& context);

// The configuration with the layout, microbatch and recomputation of a plan, on so many devices of a node.
train::RunConfig with_plan(train::RunConfig config, const plan::Found& found, std::int64_t devices_per_node);

}  // namespace stoa::cli
