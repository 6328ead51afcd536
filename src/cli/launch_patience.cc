#include "cli/launch_patience.h"

#include "base/error.h"
#include "comm/processes/process_launch.h"

namespace stoa::cli {

train::LaunchPatience launch_patience(const ConfigArguments& config, std::stop_token stop) {
  train::LaunchPatience patience;
  patience.stop = std::move(stop);
  try {
    const comm::ProcessLaunch launch = comm::process_launch();
    if (launch.mpi_ranks == 1 && !launch.meeting) return patience;
    const int ranks = launch.meeting ? launch.meeting->size : launch.mpi_ranks;
    const train::RunConfig run = read_config(config, Purpose::kTrain, ranks).run;
    patience.timeout = communication_timeout(run);
    patience.grace =
        std::chrono::milliseconds(static_cast<std::int64_t>(run.trainer.stop_grace.seconds * 1e3));
  } catch (const Error&) {
  }
  return patience;
}

std::chrono::milliseconds communication_timeout(const train::RunConfig& config) {
  return std::chrono::milliseconds(
      static_cast<std::int64_t>(config.trainer.communication_timeout.seconds * 1e3));
}

}  // namespace stoa::cli
