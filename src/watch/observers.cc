#include "watch/observers.h"

#include "watch/console_progress.h"
#include "watch/metrics_file.h"
#include "watch/report_file.h"
#include "watch/tensorboard_file.h"

namespace stoa::watch {

std::vector<std::unique_ptr<RunObserver>> make_observers(const std::filesystem::path& run_directory,
                                                         Console& console, const ObserverOptions& options) {
  std::vector<std::unique_ptr<RunObserver>> observers;
  observers.push_back(std::make_unique<ConsoleProgress>(console));
  // Before the metrics: it reads how far a killed process came, which they then drop.
  if (options.report) observers.push_back(std::make_unique<ReportFile>(run_directory, console));
  observers.push_back(std::make_unique<MetricsFile>(run_directory / "metrics.jsonl"));
  if (options.tensorboard) observers.push_back(std::make_unique<TensorboardFile>(run_directory));
  return observers;
}

}  // namespace stoa::watch
