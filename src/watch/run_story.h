// The content of a run's report, gathered from its events over all processes of the run.
//
// The curve lives in metrics.jsonl. What that does not hold (tasks, samples, processes, parts of the time) is
// kept as JSON inside report.html itself, from where the next process of the same run reads it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "watch/metrics_curve.h"
#include "watch/run_observer.h"

namespace stoa::watch {

// One process of the run.
struct Session {
  double began = 0;                            // seconds since 1970; 0: a page of before does not say
  std::int64_t first_step = 0, last_step = 0;  // steps done before it, and when it ended
  std::int64_t measured_steps = 0;             // steps whose time is in the sums below
  double seconds = 0;                          // wall clock, from its start to its last sign of life
  double step_seconds = 0, compute_seconds = 0, data_seconds = 0,
         save_seconds = 0;                              // sums over the measured steps
  double validation_seconds = 0, snapshot_seconds = 0;  // between steps
  std::int64_t lost_steps = 0;  // done, but behind the checkpoint that the next process resumed from
  std::string ended;            // "done", "time", "signal", "error"; "" while it runs; "killed"
};

class RunStory {
 public:
  // What the processes before left: contents of report.html and metrics.jsonl, "" where there are none, and
  // when the latter was last written to (seconds since 1970, 0: not known). Used where the run is resumed.
  struct Left {
    std::string_view report, metrics;
    double last_sign = 0;
  };
  // `now`: seconds since 1970.
  void begin(const RunStart& start, const Left& left, double now);
  void add(const StepReport& step);
  void add(const ValidationReport& validation);
  void add(const TaskReport& tasks);
  void add(const SampleReport& sample);
  void add(const CheckpointReport& checkpoint);
  void end(const RunFinish& finish);
  void tick(double now);  // the current process's wall clock

  std::string facts() const;  // JSON, valid UTF-8, without "<"

  const RunStart& start() const { return start_; }
  // Curves, thinned out where the run is long, and their ends as they were.
  const MetricsCurve& training() const { return training_; }
  const MetricsCurve& validation() const { return validation_; }
  const std::optional<MetricsPoint>& newest_training() const { return newest_training_; }
  const std::optional<MetricsPoint>& newest_validation() const { return newest_validation_; }
  const std::optional<MetricsPoint>& best_validation() const { return best_validation_; }
  const std::vector<TaskReport>& tasks() const { return tasks_; }
  const std::vector<SampleReport>& samples() const { return samples_; }
  const std::vector<Session>& sessions() const { return sessions_; }
  const std::optional<RunFinish>& finish() const { return finish_; }
  std::int64_t skipped_steps() const { return skipped_steps_; }
  std::int64_t step() const { return sessions_.empty() ? 0 : sessions_.back().last_step; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t peak_memory_bytes() const { return peak_memory_bytes_; }
  const std::string& newest_checkpoint() const { return newest_checkpoint_; }

  // From the start of the first process to now or to the end of the last, with the time between them.
  double total_seconds() const;
  // The part of it between processes: the next one had not been started, or waited in a queue.
  double waiting_seconds() const;
  // The share of the total time spent computing steps that count.
  double goodput() const;

 private:
  void read_facts(std::string_view report);
  void close_killed_session(const Left& left);
  void keep(const MetricsPoint& point);

  RunStart start_;
  MetricsCurve training_, validation_;
  std::optional<MetricsPoint> newest_training_, newest_validation_, best_validation_;
  std::vector<TaskReport> tasks_;
  std::vector<SampleReport> samples_;
  std::vector<Session> sessions_;
  std::optional<RunFinish> finish_;
  std::int64_t skipped_steps_ = 0, tokens_ = 0, peak_memory_bytes_ = 0;
  std::string newest_checkpoint_;
};

inline constexpr std::string_view kFactsOpen = "<script type=\"application/json\" id=\"stoa-facts\">";
inline constexpr std::string_view kFactsClose = "</script>";

}  // namespace stoa::watch
