// How long the processes of a command wait for each other, before its configuration is known to all.
#pragma once

#include <span>
#include <stop_token>
#include <string>

#include "train/launch.h"
#include "train/run_config.h"

namespace stoa::cli {

// `config`, `overrides`: as for load_run_config(). If they have errors, which are reported later, the
// defaults apply.
train::LaunchPatience launch_patience(const std::string& config, std::span<const std::string> overrides,
                                      std::stop_token stop);
std::chrono::milliseconds communication_timeout(const train::RunConfig& config);

}  // namespace stoa::cli
