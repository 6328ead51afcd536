#include "watch/console_progress.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

namespace stoa::watch {
namespace {

// Seconds since some fixed moment, whatever is done to the clock of the system.
double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr std::size_t kRecentSteps = 200;  // the rate is taken over at most this many steps
constexpr std::size_t kSampleWidth = 100;  // columns of a sample's lines

std::string decimal(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : std::string("not finite");
}

// Text in lines of at most kSampleWidth columns (bytes of UTF-8 leads counted), control characters made
// visible, each behind a bar.
std::string indented(std::string_view text) {
  std::string out = "  | ";
  std::size_t column = 0, word = std::string::npos;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\n  | ";
      column = 0;
      word = std::string::npos;
      continue;
    }
    if (byte < 0x20 && c != '\t') {
      out += fmt::format("\\x{:02x}", byte);  // a terminal must not obey what a model writes
      column += 4;
      continue;
    }
    if (c == 0x7f) {
      out += "\\x7f";
      column += 4;
      continue;
    }
    if (c == ' ') word = out.size();
    out += c;
    if ((byte & 0xc0) != 0x80) ++column;
    if (column > kSampleWidth && word != std::string::npos) {
      const std::string tail = out.substr(word + 1);
      out.resize(word);
      out += "\n  | " + tail;
      column = tail.size();
      word = std::string::npos;
    }
  }
  return out;
}

}  // namespace

std::string format_rate(double rate) {
  if (!std::isfinite(rate)) return "not finite";
  if (rate == 0) return "0";
  std::string text = fmt::format("{:.1e}", rate);  // "5.9e-04"
  const auto exponent = text.find('e') + 2;
  while (exponent + 1 < text.size() && text[exponent] == '0') text.erase(exponent, 1);
  if (text[exponent - 1] == '+') text.erase(exponent - 1, 1);
  return text;
}

std::vector<std::string> start_lines(const RunStart& start) {
  std::string first;
  if (start.resumed_from.empty()) {
    first = fmt::format("START {}", start.name);
  } else {
    first = fmt::format("RESUMED step-{}{}", start.first_step,
                        start.verified ? " (verified)" : " (not verified)");
  }
  if (!start.layout.empty()) first += " | " + start.layout;
  first += fmt::format(" | plan {}/rank", format_bytes(static_cast<double>(device_bytes(start.planned))));
  if (const std::size_t host = host_bytes(start.planned))
    first += fmt::format(" and {} of host memory", format_bytes(static_cast<double>(host)));
  std::vector<std::string> lines{first};
  std::string second;
  const auto part = [&](const std::string& text) {
    if (!text.empty()) second += (second.empty() ? "  " : " | ") + text;
  };
  part(start.model);
  part(start.precision);
  part(start.machine);
  if (start.gemm_tflops > 0) part(fmt::format("{:.2f} TFLOP/s", start.gemm_tflops));
  if (!second.empty()) lines.push_back(second);
  return lines;
}

ConsoleProgress::ConsoleProgress(Console& console, SecondsClock now)
    : console_(console), now_(now ? std::move(now) : SecondsClock(steady_seconds)) {}

void ConsoleProgress::on_start(const RunStart& start) {
  started_ = now_();
  last_step_ = start.last_step;
  planned_seconds_ = start.planned_seconds;
  validation_.reset();
  recent_.assign({{start.first_step, started_}});
  for (const std::string& line : start_lines(start)) console_.line(line);
}

std::string ConsoleProgress::step_of_total(std::int64_t step) const {
  return last_step_ > 0 ? fmt::format("step {}/{}", step, last_step_) : fmt::format("step {}", step);
}

std::optional<double> ConsoleProgress::seconds_left(std::int64_t step, double now) const {
  std::optional<double> left;
  const Mark& oldest = recent_.front();
  if (last_step_ > 0 && step > oldest.step && now > oldest.seconds) {
    const double per_step = (now - oldest.seconds) / static_cast<double>(step - oldest.step);
    left = per_step * static_cast<double>(std::max<std::int64_t>(last_step_ - step, 0));
  }
  if (planned_seconds_ > 0) {
    const double until = std::max(0.0, planned_seconds_ - (now - started_));
    left = left ? std::min(*left, until) : until;
  }
  return left;
}

std::string ConsoleProgress::progress_line(const StepReport& step, double now) const {
  std::string line = fmt::format("{}  loss {}", step_of_total(step.step), decimal(step.loss, 3));
  for (const auto& [name, value] : step.scores)
    if (name == "accuracy" || name == "margin" || is_divergence(name))
      line += fmt::format("  {} {}", name, decimal(value, 3));
  if (validation_) line += fmt::format("  val {}@{}", decimal(validation_->loss, 3), validation_->step);
  line += fmt::format("  gnorm {}  lr {} | {} tok/s", decimal(step.gradient_norm, 2),
                      format_rate(step.learning_rate), format_count(step.tokens_per_second));
  if (step.mfu > 0) line += fmt::format("  {:.0f} % of peak", 100 * step.mfu);
  line += fmt::format(" | {}", format_bytes(static_cast<double>(step.peak_memory_bytes)));
  if (const auto left = seconds_left(step.step, now))
    line += fmt::format(" | left {}", format_duration(*left));
  return line;
}

void ConsoleProgress::on_step(const StepReport& step) {
  const double now = now_();
  if (recent_.empty()) recent_.push_back({step.step - 1, now - step.step_seconds});
  recent_.push_back({step.step, now});
  // The first step of a process warms caches and compiles kernels; it leaves the rate as soon as there are
  // others.
  if (recent_.size() == 4 && recent_.front().step + 1 == recent_[1].step) recent_.pop_front();
  if (recent_.size() > kRecentSteps) recent_.pop_front();
  if (step.skipped) {
    console_.line(fmt::format("step {} skipped: gradients not finite, loss scale now {} ({} skipped so far)",
                              step.step, step.loss_scale, step.skipped_steps));
  }
  const std::string line = progress_line(step, now);
  if (console_.is_terminal()) {
    console_.live(line);
  } else if (step.logged) {
    console_.line(line);
  }
}

void ConsoleProgress::on_validation(const ValidationReport& validation) {
  validation_ = validation;
  std::string scores;
  if (validation.bits_per_byte > 0)
    scores += fmt::format("  {} bits per byte", decimal(validation.bits_per_byte, 3));
  for (const auto& [name, value] : validation.scores)
    scores += fmt::format("  {} {}", name, decimal(value, 4));
  console_.line(fmt::format("{}  validation loss {}{}{}  {} {} in {}", step_of_total(validation.step),
                            decimal(validation.loss, 4), validation.best ? " (best)" : "", scores,
                            format_count(static_cast<double>(validation.valid_tokens)),
                            validation.of_texts ? "texts" : "tokens", format_duration(validation.seconds)));
}

void ConsoleProgress::on_tasks(const TaskReport& tasks) {
  std::string figures;
  for (const TaskFigure& f : tasks.figures)
    figures += fmt::format("  {} {}{}", f.name, decimal(f.value, 4),
                           f.standard_error ? " ± " + decimal(*f.standard_error, 4) : "");
  console_.line(
      fmt::format("{}  tasks{}  in {}", step_of_total(tasks.step), figures, format_duration(tasks.seconds)));
}

void ConsoleProgress::on_sample(const SampleReport& sample) {
  console_.line(
      fmt::format("{}  sample\n{}", step_of_total(sample.step), indented(sample.prompt + sample.text)));
}

void ConsoleProgress::on_checkpoint(const CheckpointReport& checkpoint) {
  console_.line(fmt::format("{}  checkpoint {} (paused {:.2f} s)", step_of_total(checkpoint.step),
                            checkpoint.path, checkpoint.snapshot_seconds));
}

void ConsoleProgress::on_finish(const RunFinish& finish) {
  console_.finish_live();
  const char* word = finish.reason == StopReason::kDone    ? "DONE"
                     : finish.reason == StopReason::kError ? "FAILED"
                                                           : "STOPPED";
  std::string line =
      fmt::format("{} step {} | {} tokens in {}", word, finish.step,
                  format_count(static_cast<double>(finish.tokens)), format_duration(finish.seconds));
  if (validation_) line += fmt::format(" | val {}@{}", decimal(validation_->loss, 4), validation_->step);
  if (finish.skipped_steps > 0) line += fmt::format(" | {} skipped", finish.skipped_steps);
  if (finish.peak_memory_bytes > 0) {
    line += fmt::format(" | peak {}", format_bytes(static_cast<double>(finish.peak_memory_bytes)));
  }
  if (!finish.detail.empty()) line += " | " + finish.detail;
  console_.line(line);
}

}  // namespace stoa::watch
