// What a run's report tells, gathered from its events over all the processes that it took.
//
// The curve lives in metrics.jsonl. What that does not hold (samples, processes, parts of the time) is kept
// as JSON inside report.html itself, from where the next process of the same run reads it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "watch/metrics_file.h"
#include "watch/run_observer.h"

namespace stoa::watch {

// One process of the run.
struct Session {
  std::int64_t first_step = 0, last_step = 0;  // steps done before it, and when it ended
  std::int64_t measured_steps = 0;             // steps whose time is in the sums below
  double seconds = 0;                          // wall clock
  double step_seconds = 0, compute_seconds = 0, data_seconds = 0,
         save_seconds = 0;                              // sums over the measured steps
  double validation_seconds = 0, snapshot_seconds = 0;  // between steps
  std::int64_t lost_steps = 0;  // done, but behind the checkpoint that the next process resumed from
  std::string ended;            // "done", "time", "signal", "error"; "" while it runs; "killed"
};

struct BitsPerByte {
  std::int64_t step = 0;
  double value = 0;
};

class RunStory {
 public:
  // `report` and `metrics`: contents of report.html and metrics.jsonl as they are, "" where there are none;
  // used where the run is resumed. `now`: seconds of any steady clock.
  void begin(const RunStart& start, std::string_view report, std::string_view metrics, double now);
  void add(const StepReport& step);
  void add(const ValidationReport& validation);
  void add(const SampleReport& sample);
  void add(const CheckpointReport& checkpoint);
  void end(const RunFinish& finish);
  void tick(double now);  // the current process's wall clock

  std::string facts() const;  // JSON, valid UTF-8, without "<"

  const RunStart& start() const { return start_; }
  const std::vector<MetricsPoint>& points() const { return points_; }
  const std::vector<SampleReport>& samples() const { return samples_; }
  const std::vector<BitsPerByte>& bits_per_byte() const { return bits_per_byte_; }
  const std::vector<Session>& sessions() const { return sessions_; }
  const std::optional<RunFinish>& finish() const { return finish_; }
  std::int64_t skipped_steps() const { return skipped_steps_; }
  std::int64_t step() const { return sessions_.empty() ? 0 : sessions_.back().last_step; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t peak_memory_bytes() const { return peak_memory_bytes_; }
  const std::string& newest_checkpoint() const { return newest_checkpoint_; }

  double total_seconds() const;
  // Share of all wall clock that went into the computing of steps that count.
  double goodput() const;

 private:
  void read_facts(std::string_view report);
  void close_killed_session(std::string_view metrics);

  RunStart start_;
  std::vector<MetricsPoint> points_;
  std::vector<SampleReport> samples_;
  std::vector<BitsPerByte> bits_per_byte_;
  std::vector<Session> sessions_;
  std::optional<RunFinish> finish_;
  std::int64_t skipped_steps_ = 0, tokens_ = 0, peak_memory_bytes_ = 0;
  std::string newest_checkpoint_;
  double began_ = 0;
};

inline constexpr std::string_view kFactsOpen = "<script type=\"application/json\" id=\"stoa-facts\">";
inline constexpr std::string_view kFactsClose = "</script>";

}  // namespace stoa::watch
