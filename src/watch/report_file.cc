#include "watch/report_file.h"

#include <fmt/format.h>

#include <chrono>

#include "base/error.h"
#include "base/file.h"
#include "watch/report_page.h"

namespace stoa::watch {
namespace {

std::string text_or_nothing(const fs::path& path) {
  try {
    return read_text(path);
  } catch (const IoError&) {
    return {};
  }
}

// Seconds since 1970: processes of one run compare them.
double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double last_write(const fs::path& path) {
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  if (error) return 0;
  const auto system = std::chrono::file_clock::to_sys(time);
  return std::chrono::duration<double>(system.time_since_epoch()).count();
}

}  // namespace

ReportFile::ReportFile(fs::path run_directory, Console& console)
    : directory_(std::move(run_directory)), path_(directory_ / "report.html"), console_(console) {}

void ReportFile::write() {
  story_.tick(now());
  due_ = false;
  try {
    write_text(path_, render_report(story_));
    failed_ = false;
  } catch (const IoError& error) {
    if (!failed_)
      console_.warn(fmt::format("the report is not written: {}; the run continues", error.what()));
    failed_ = true;
  }
}

void ReportFile::on_start(const RunStart& start) {
  const fs::path metrics = directory_ / "metrics.jsonl";
  const std::string report_text = text_or_nothing(path_), metrics_text = text_or_nothing(metrics);
  story_.begin(start, {report_text, metrics_text, last_write(metrics)}, now());
  started_ = true;
  write();
}

void ReportFile::on_step(const StepReport& step) {
  story_.add(step);
  if (due_) write();
}

void ReportFile::on_validation(const ValidationReport& validation) {
  story_.add(validation);
  due_ = true;  // samples may follow: one page shows them all
}

void ReportFile::on_tasks(const TaskReport& tasks) {
  story_.add(tasks);
  due_ = true;
}

void ReportFile::on_sample(const SampleReport& sample) {
  story_.add(sample);
  due_ = true;
}

void ReportFile::on_checkpoint(const CheckpointReport& checkpoint) {
  story_.add(checkpoint);
  write();  // who resumes from it finds here all that was before it
}

void ReportFile::on_finish(const RunFinish& finish) {
  if (!started_)
    return;  // the run failed before it began: there is nothing to tell, and the error is reported elsewhere
  story_.end(finish);
  write();
  if (!failed_) console_.line(fmt::format("report: {}", path_.string()));
}

}  // namespace stoa::watch
