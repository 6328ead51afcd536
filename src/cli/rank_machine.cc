#include "cli/rank_machine.h"

#include "train/layout_plan.h"

namespace stoa::cli {

MachineOptions rank_machine(MachineOptions asked, const train::RunConfig& config, const train::Launch& launch,
                            bool bind_cores) {
  if (!asked.threads) asked.threads = config.trainer.num_threads;
  asked.ranks = launch.threads_on_host(train::ranks_of(config));
  asked.threads = threads_of(asked);
  if (bind_cores) launch.require_bindable();
  return asked;
}

infer::Machine make_machine(MachineOptions options, const train::Seat& seat) {
  options.local_rank = seat.place_on_host;
  return make_machine(options);
}

}  // namespace stoa::cli
