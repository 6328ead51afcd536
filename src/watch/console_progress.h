// The lines that a run shows on standard error: in a terminal one line that is updated in place,
// elsewhere a plain line per logged step; lines that stay for start, validation, samples, checkpoints,
// skipped steps and the end.
#pragma once

#include <deque>
#include <functional>
#include <optional>

#include "base/console.h"
#include "watch/run_observer.h"

namespace stoa::watch {

class ConsoleProgress final : public RunObserver {
 public:
  using SecondsClock = std::function<double()>;  // seconds since any fixed moment
  explicit ConsoleProgress(Console& console, SecondsClock now = {});

  void on_start(const RunStart& start) override;
  void on_step(const StepReport& step) override;
  void on_validation(const ValidationReport& validation) override;
  void on_tasks(const TaskReport& tasks) override;
  void on_sample(const SampleReport& sample) override;
  void on_checkpoint(const CheckpointReport& checkpoint) override;
  void on_finish(const RunFinish& finish) override;

 private:
  struct Mark {
    std::int64_t step;
    double seconds;
  };

  std::string step_of_total(std::int64_t step) const;
  std::string progress_line(const StepReport& step, double now) const;
  // Until the last step at the rate of recent steps, validations and checkpoints between them included, or
  // until trainer.max_time where that comes first. None before there is a rate.
  std::optional<double> seconds_left(std::int64_t step, double now) const;

  Console& console_;
  const SecondsClock now_;
  std::int64_t last_step_ = 0;
  double planned_seconds_ = 0, started_ = 0;
  std::optional<ValidationReport> validation_;
  std::deque<Mark> recent_;
};

// The lines of the start: what begins or continues, on what.
std::vector<std::string> start_lines(const RunStart& start);
// "5.9e-4": a rate as people write it.
std::string format_rate(double rate);

}  // namespace stoa::watch
