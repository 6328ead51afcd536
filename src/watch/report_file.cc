#include "watch/report_file.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "watch/report_page.h"
#include "watch/steady_seconds.h"

namespace stoa::watch {
namespace {

std::string text_or_nothing(const fs::path& path) {
  std::error_code unreadable;
  return fs::exists(path, unreadable) ? read_text(path) : std::string();
}

}  // namespace

ReportFile::ReportFile(fs::path run_directory, Console& console)
    : directory_(std::move(run_directory)), path_(directory_ / "report.html"), console_(console) {}

void ReportFile::write() {
  story_.tick(steady_seconds());
  write_text(path_, render_report(story_));
  due_ = false;
}

void ReportFile::on_start(const RunStart& start) {
  story_.begin(start, text_or_nothing(path_), text_or_nothing(directory_ / "metrics.jsonl"),
               steady_seconds());
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
    return;  // the run failed before it began: there is nothing to tell, and the error is told elsewhere
  story_.end(finish);
  try {
    write();
  } catch (const Error& error) {
    // A run that ends by an error ends by that one, not by what it causes here.
    if (finish.reason != StopReason::kError) throw;
    console_.warn(error.what());
    return;
  }
  console_.line(fmt::format("report: {}", path_.string()));
}

}  // namespace stoa::watch
