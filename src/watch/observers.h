// All that watches a training run, in the order in which it must hear of events.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "base/console.h"
#include "watch/run_observer.h"

namespace stoa::watch {

struct ObserverOptions {
  bool tensorboard = true;  // events.out.tfevents.*
  bool report = true;       // report.html
};

// Progress lines, report.html, metrics.jsonl and TensorBoard events in `run_directory`, which must exist when
// the run starts. `console` outlives the observers. Nothing is written before on_start().
std::vector<std::unique_ptr<RunObserver>> make_observers(const std::filesystem::path& run_directory,
                                                         Console& console,
                                                         const ObserverOptions& options = {});

}  // namespace stoa::watch
