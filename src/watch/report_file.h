// Keeps report.html up to date: at the start, with the step or checkpoint that follows a validation or a
// sample, and at the end; always whole.
#pragma once

#include <filesystem>

#include "base/console.h"
#include "watch/run_story.h"

namespace stoa::watch {

class ReportFile final : public RunObserver {
 public:
  // Writes `run_directory`/report.html. On resume it reads that file and metrics.jsonl as the last process
  // left them: it must hear of the start before MetricsFile, which drops from there what is repeated.
  ReportFile(std::filesystem::path run_directory, Console& console);

  // A page that cannot be written is reported once and ends no run.
  void on_start(const RunStart& start) override;
  void on_step(const StepReport& step) override;
  void on_validation(const ValidationReport& validation) override;
  void on_tasks(const TaskReport& tasks) override;
  void on_sample(const SampleReport& sample) override;
  void on_checkpoint(const CheckpointReport& checkpoint) override;
  void on_finish(const RunFinish& finish) override;  // names the report on the console

 private:
  void write();

  const std::filesystem::path directory_, path_;
  Console& console_;
  RunStory story_;
  bool started_ = false;
  bool due_ = false;     // something has happened that the page should show
  bool failed_ = false;  // the last page could not be written
};

}  // namespace stoa::watch
