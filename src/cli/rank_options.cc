#include "cli/rank_options.h"

#include "cli/number_checks.h"

namespace stoa::cli {

void RankOptions::add_to(CLI::App& command, const std::string& otherwise) {
  command
      .add_option("--ranks,--gpus", count,
                  "Number of ranks, as threads of this process, each with its own GPU if there are enough; "
                  "default: " +
                      otherwise +
                      ". Under mpirun, srun or a launcher that sets RANK and "
                      "WORLD_SIZE the ranks are the processes")
      ->check(rank_count());
  command.add_flag(
      "--check-communication,!--no-check-communication", check,
      "Ranks compare their requests before any data moves, and report the first difference (on in "
      "debug builds)");
  command.add_flag("--bind-cores", bind_cores,
                   "Pin ranks that are threads to their own cores, as mpirun does with its processes: "
                   "steadier on a dedicated machine, slower on a shared one");
}

train::LaunchOptions RankOptions::launch_options(const run::Layout& layout) const {
  train::LaunchOptions options;
  options.check = check;
  options.bind_cores = bind_cores;
  options.context = layout.context_place(0);
  return options;
}

}  // namespace stoa::cli
