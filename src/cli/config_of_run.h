// The configuration of a command that trains or opens the data, in contrast to one that plans.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/console.h"
#include "train/run_config.h"

namespace stoa::cli {

// As load_run_config (cli/schema.h); what a file of NeMo leaves open (`${data_dir}/…`) is an error.
train::RunConfig load_config_of_run(const std::string& config, std::span<const std::string> overrides,
                                    Console& console, std::optional<std::int64_t> ranks = {});

}  // namespace stoa::cli
