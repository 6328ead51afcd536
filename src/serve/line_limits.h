// Where an answer ends by its lines, as llama-server ends what an editor has asked for: at a line that is
// indented less than asked for, and, once a line is complete, when the time is over.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace stoa::serve {

class LineLimits {
 public:
  using Clock = std::chrono::steady_clock;
  struct Options {
    std::int64_t indent = 0;            // blanks before every line but the first; 0: any number
    std::chrono::milliseconds time{0};  // from the first token on; 0: no limit
  };
  explicit LineLimits(const Options& options) : options_(options) {}

  // How much of `text`, which comes next at time `now`, is of the answer. `ended`: nothing is after that.
  std::size_t take(std::string_view text, Clock::time_point now, bool& ended);

 private:
  Options options_;
  bool begun_ = false, has_line_ = false, before_text_ = false;  // of a line but the first
  std::int64_t blanks_ = 0;
  Clock::time_point begin_{};
};

}  // namespace stoa::serve
