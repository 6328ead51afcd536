#include "base/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>

#include "base/timing.h"

namespace stoa {

using Clock = std::chrono::steady_clock;

namespace {

// The start of `text` that fits one line of the terminal: a longer live line would wrap and could not be
// replaced.
std::string_view fit_terminal(std::string_view text, std::FILE* stream) {
  winsize size{};
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return text;
  std::size_t columns = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) continue;  // within a character
    if (++columns > size.ws_col) return text.substr(0, i);
  }
  return text;
}

// Errors are ignored: work continues if the log's disk is full or the terminal is gone.
void put(std::string_view text, std::FILE* stream) {
  [[maybe_unused]] const std::size_t told = std::fwrite(text.data(), 1, text.size(), stream);
}

}  // namespace

Console::Console(Level level, std::FILE* stream)
    : level_(level), stream_(stream), terminal_(::isatty(::fileno(stream)) == 1) {}

void Console::clear_live() {
  if (live_shown_) put("\r\x1b[2K", stream_);
  live_shown_ = false;
}

void Console::line(std::string_view text) {
  if (level_ == Level::kQuiet) return;
  std::lock_guard lock(mutex_);
  clear_live();
  put(fmt::format("{}\n", text), stream_);
  std::fflush(stream_);
}

void Console::live(std::string_view text) {
  if (level_ == Level::kQuiet) return;
  std::lock_guard lock(mutex_);
  if (terminal_) {
    put(fmt::format("\r\x1b[2K{}", fit_terminal(text, stream_)), stream_);
    live_shown_ = true;
  } else {
    const auto now = Clock::now();
    if (last_plain_ != Clock::time_point{} && now - last_plain_ < std::chrono::seconds(10)) return;
    last_plain_ = now;
    put(fmt::format("{}\n", text), stream_);
  }
  std::fflush(stream_);
}

void Console::warn(std::string_view text) {
  std::lock_guard lock(mutex_);
  clear_live();
  put(fmt::format("WARNING {}\n", text), stream_);
  std::fflush(stream_);
}

void Console::finish_live() {
  std::lock_guard lock(mutex_);
  if (live_shown_) put("\n", stream_);
  live_shown_ = false;
  std::fflush(stream_);
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto s = static_cast<long long>(std::llround(seconds));
  if (s >= 86400) return fmt::format("{}d{:02}h", s / 86400, s % 86400 / 3600);
  if (s >= 3600) return fmt::format("{}h{:02}", s / 3600, s % 3600 / 60);
  if (s >= 60) return fmt::format("{}m{:02}", s / 60, s % 60);
  return fmt::format("{}s", s);
}

std::string format_bytes(double bytes) {
  const char* units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
  int u = 0;
  while (std::abs(bytes) >= 1000 && u < 5) bytes /= 1000, ++u;
  return u == 0 ? fmt::format("{:.0f} B", bytes)
                : fmt::format("{:.{}f} {}", bytes, bytes < 10 ? 2 : 1, units[u]);
}

std::string format_count(double value) {
  const char* units[] = {"", "k", "M", "G", "T", "P"};
  int u = 0;
  while (std::abs(value) >= 1000 && u < 5) value /= 1000, ++u;
  return u == 0 ? fmt::format("{:.0f}", value) : fmt::format("{:.1f}{}", value, units[u]);
}

Progress::Progress(Console& console, std::string label, double total, std::string unit)
    : console_(console),
      label_(std::move(label)),
      unit_(std::move(unit)),
      total_(total),
      start_(Clock::now()),
      last_(start_) {}

void Progress::update(double done) {
  done_ = done;
  const auto now = Clock::now();
  if (now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double rate = elapsed > 0 ? done / elapsed : 0;
  if (total_ > 0) {
    console_.live(fmt::format("{}  {:.0f} %  {}{}/s  left {}", label_, 100 * done / total_,
                              format_count(rate), unit_,
                              format_duration(rate > 0 ? (total_ - done) / rate : NAN)));
  } else {
    console_.live(
        fmt::format("{}  {}{}  {}{}/s", label_, format_count(done), unit_, format_count(rate), unit_));
  }
}

void Progress::finish() {
  const double elapsed = seconds_since(start_);
  console_.line(fmt::format("{}  {}{} in {}  ({}{}/s)", label_, format_count(done_), unit_,
                            format_duration(elapsed), format_count(elapsed > 0 ? done_ / elapsed : 0),
                            unit_));
}

}  // namespace stoa
