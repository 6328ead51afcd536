// How long the processes of a command wait for each other, before its configuration is known to all.
#pragma once

#include <stop_token>
#include <string>

#include "cli/config_source.h"
#include "train/launch.h"
#include "train/run_config.h"

namespace stoa::cli {

// If the configuration has errors, which are reported later, the defaults apply.
train::LaunchPatience launch_patience(const ConfigArguments& config, std::stop_token stop);
std::chrono::milliseconds communication_timeout(const train::RunConfig& config);

}  // namespace stoa::cli
