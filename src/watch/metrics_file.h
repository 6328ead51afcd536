// metrics.jsonl: the curve of a run, one line of JSON per logged step, validation or evaluation of tasks.
// Its fields are from StepReport, ValidationReport and TaskReport (watch/run_observer.h).
#pragma once

#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "watch/run_observer.h"

namespace stoa::watch {

class MetricsFile final : public RunObserver {
 public:
  explicit MetricsFile(std::filesystem::path path) : path_(std::move(path)) {}
  ~MetricsFile() override;
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  // Opens the file. A new run truncates it; a resumed one first removes, atomically, the lines after the step
  // from which it resumes, so that its curve equals that of an uninterrupted run. IoError if it cannot be
  // written.
  void on_start(const RunStart& start) override;
  void on_step(const StepReport& step) override;
  void on_validation(const ValidationReport& validation) override;
  void on_tasks(const TaskReport& tasks) override;

 private:
  void append(std::string line);

  const std::filesystem::path path_;
  int fd_ = -1;
};

// Lines as they are written, without the line break. Floats in the shortest form that reads back as the same
// number; those that are not finite are null.
std::string metrics_line(const StepReport& step);
std::string metrics_line(const ValidationReport& validation);
std::string metrics_line(const TaskReport& tasks);  // "piqa/acc" and "piqa/acc_stderr"

// A line read back. Absent fields: 0; null: NaN.
struct MetricsPoint {
  std::int64_t step = 0, samples = 0, tokens = 0, peak_memory_bytes = 0;
  double loss = 0, learning_rate = 0, gradient_norm = 0, loss_scale = 0, step_seconds = 0,
         tokens_per_second = 0;
  double model_tflops = 0, mfu = 0;
  double validation_loss = 0, bits_per_byte = 0;  // the latter 0 where it is not known
  // Scores of answers, of training or of validation; NaN: there are none.
  double accuracy = std::numeric_limits<double>::quiet_NaN(), margin = accuracy,
         divergence = accuracy;  // "kl" or "jsd"
  bool is_validation = false;
  bool is_curve = true;  // not a line of tasks
};

// Calls `each` with the points of metrics text up to and including `last_step`. Lines of tasks and invalid
// ones (torn by a kill) are skipped.
void parse_metrics(std::string_view text, std::int64_t last_step,
                   const std::function<void(const MetricsPoint&)>& each);
// The lines themselves, each with its line break.
std::string keep_metrics(std::string_view text, std::int64_t last_step);

}  // namespace stoa::watch
