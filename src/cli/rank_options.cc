#include "cli/rank_options.h"

#include "cli/number_checks.h"

namespace stoa::cli {

void RankOptions::add_to(CLI::App& command) {
  command
      .add_option(
          "--ranks,--gpus", count,
          "Ranks that train together, as threads of this process, on a GPU each where there are as many; "
          "without it trainer.devices x num_nodes. Under mpirun, srun or a launcher that sets RANK and "
          "WORLD_SIZE the ranks are the processes")
      ->check(rank_count());
  command.add_flag(
      "--check-communication,!--no-check-communication", check,
      "Ranks compare what they ask for before any data moves: the first difference is named (on in "
      "debug builds)");
  command.add_flag(
      "--bind-cores", bind_cores,
      "Ranks that are threads stay on cores of their own, as mpirun binds its processes: steadier "
      "where nothing else runs, slower where something does");
}

train::LaunchOptions RankOptions::launch_options(const run::Layout& layout) const {
  train::LaunchOptions options;
  options.check = check;
  options.bind_cores = bind_cores;
  options.context = layout.context_place(0);
  return options;
}

}  // namespace stoa::cli
