// From a configuration to the layout of its ranks.
#pragma once

#include <string>

#include "run/layout.h"
#include "train/run_config.h"

namespace stoa::train {

// trainer.devices x num_nodes where given; else as many as hold each parameter once.
int ranks_of(const RunConfig& config);

// ConfigError says everything that does not fit, each with its rule, its values and the nearest valid
// choices.
run::Layout plan_layout(const RunConfig& config);

// "4 ranks = TP2 SP PP2 VPP2 DP1 EP2 ZeRO-1, interleaved": for people.
std::string layout_text(const run::Layout& layout);

}  // namespace stoa::train
