// Progress and messages on standard error: one self-updating line in a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

namespace stoa {

class Console {
 public:
  enum class Level { kQuiet, kNormal };
  explicit Console(Level level = Level::kNormal, std::FILE* stream = stderr);

  void line(std::string_view text);  // a line that stays
  void live(
      std::string_view text);  // replaces the live line in a terminal; elsewhere at most one line every 10 s
  void warn(std::string_view text);  // "WARNING …", also when quiet
  void finish_live();                // ends the live line
  bool is_terminal() const { return terminal_; }

 private:
  void clear_live();

  const Level level_;
  std::FILE* const stream_;
  const bool terminal_;
  std::mutex mutex_;
  bool live_shown_ = false;
  std::chrono::steady_clock::time_point last_plain_{};
};

// "3h12", "4m05", "12s": for time left and elapsed.
std::string format_duration(double seconds);
// "61.2 GB", "512 KB" (powers of 1000).
std::string format_bytes(double bytes);
// "41.2k", "1.3M": for counts and rates.
std::string format_count(double value);

// Progress of a task with a known total: rate and time left. Thread-safe through Console.
class Progress {
 public:
  Progress(Console& console, std::string label, double total, std::string unit);
  void update(double done);  // draws at most ten times a second
  void finish();             // one closing line with the total and the rate
 private:
  Console& console_;
  const std::string label_, unit_;
  const double total_;
  double done_ = 0;
  const std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace stoa
