// How matrices that products read once, from memory, are shared out among workers.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/rounding.h"

namespace stoa::ops::cpu {

// Consecutive rows for each task. Every round of tasks, one per worker, takes a share of what is left: few
// are taken, and all workers end at nearly the same time (Hummel, Schonberg and Flynn 1992, "Factoring").
class StreamTasks {
 public:
  static constexpr std::int64_t kMost = 128;

  // Tasks begin at multiples of `at_once` rows; `least`: rows of the smallest. One token or a few take as
  // long as memory needs for the matrix, which slows down wherever a task begins: their first tasks take
  // nearly everything.
  StreamTasks(std::int64_t rows, std::int64_t at_once, std::int64_t least, std::int64_t tokens,
              std::int64_t workers) {
    constexpr std::int64_t kFewTokens = 4;
    const std::int64_t percent = tokens <= kFewTokens ? 90 : 50;
    least = round_up(std::max(least, ceil_div(rows, kMost)), at_once);
    for (std::int64_t end = 0; end < rows;) {
      const std::int64_t share = std::max(least, round_up((rows - end) * percent / (100 * workers), at_once));
      for (std::int64_t w = 0; w < workers && end < rows; ++w)
        ends_[static_cast<std::size_t>(count_++)] = end = std::min(rows, end + share);
    }
  }

  std::int64_t count() const { return count_; }
  std::int64_t first(std::int64_t task) const { return task ? end(task - 1) : 0; }
  std::int64_t end(std::int64_t task) const { return ends_[static_cast<std::size_t>(task)]; }

 private:
  std::int64_t count_ = 0;
  std::array<std::int64_t, kMost> ends_;
};

}  // namespace stoa::ops::cpu
