// The machine of a rank among the ranks of a run.
#pragma once

#include "cli/machine_factory.h"
#include "train/launch.h"
#include "train/run_config.h"

namespace stoa::cli {

// `asked` with what the run decides: how many ranks share this host and with how many threads. ConfigError
// where `bind_cores` has no meaning (train::Launch::require_bindable).
MachineOptions rank_machine(MachineOptions asked, const train::RunConfig& config, const train::Launch& launch,
                            bool bind_cores);
// The machine of one of them.
infer::Machine make_machine(MachineOptions options, const train::Seat& seat);

}  // namespace stoa::cli
