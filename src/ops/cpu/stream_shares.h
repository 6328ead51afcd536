// How matrices that products read once, from memory, are shared out among workers: each has a share of
// consecutive rows, since memory is read fastest in one stream, of which it takes a half of what is left at a
// time, and the worker that ends first takes from the end of others' shares.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "base/rounding.h"

namespace stoa::ops::cpu {

// Up to this many tokens take as long as memory needs for the matrix; on tiles of bf16, all that are streamed.
inline constexpr std::int64_t kStreamedTokens = 4;

class StreamShares {
 public:
  // Of more workers, others have no share of their own.
  static constexpr std::int64_t kMost = 64;

  // Pieces begin at multiples of `at_once` rows; `least`: rows of the smallest.
  StreamShares(std::int64_t rows, std::int64_t at_once, std::int64_t least, std::int64_t workers)
      : rows_(rows),
        at_once_(at_once),
        least_(std::max<std::int64_t>(1, ceil_div(least, at_once))),
        shares_(std::clamp<std::int64_t>(workers, 1, kMost)) {
    for (std::int64_t s = 0; s < shares_; ++s)
      left_[static_cast<std::size_t>(s)].value.store(pack(unit(s), unit(s + 1)), std::memory_order_relaxed);
  }
  StreamShares(const StreamShares&) = delete;
  StreamShares& operator=(const StreamShares&) = delete;

  // First row of a worker's share, or of those behind it.
  std::int64_t begin(std::int64_t worker) const { return row(unit(std::min(worker, shares_))); }

  // body(first, end, stop) for pieces [first, end) of rows until none is left; stop: the end of the share, up
  // to which pieces that follow are likely to be this worker's too.
  template <class Body>
  void work(int worker, const Body& body) {
    std::int64_t first = 0, end = 0;
    if (worker < shares_)
      while (take(worker, true, first, end)) body(row(first), row(end), row(unit(worker + 1)));
    for (std::int64_t i = 1; i <= shares_; ++i) {
      const std::int64_t other = (worker + i) % shares_;
      while (take(other, false, first, end)) body(row(first), row(end), row(end));
    }
  }

 private:
  struct alignas(64) Left {
    std::atomic<std::uint64_t> value;  // first unit, and end in the upper half
  };

  static std::uint64_t pack(std::int64_t first, std::int64_t end) {
    return static_cast<std::uint64_t>(first) | static_cast<std::uint64_t>(end) << 32;
  }
  std::int64_t unit(std::int64_t share) const { return ceil_div(rows_, at_once_) * share / shares_; }
  std::int64_t row(std::int64_t unit) const { return std::min(rows_, unit * at_once_); }

  // A piece from the front or from the end of a share: half of what is left.
  bool take(std::int64_t share, bool front, std::int64_t& first, std::int64_t& end) {
    std::atomic<std::uint64_t>& left = left_[static_cast<std::size_t>(share)].value;
    std::uint64_t now = left.load(std::memory_order_relaxed);
    for (;;) {
      first = static_cast<std::int64_t>(now & 0xffffffffu);
      end = static_cast<std::int64_t>(now >> 32);
      if (first == end) return false;
      const std::int64_t count = std::min(end - first, std::max(least_, (end - first) / 2));
      if (left.compare_exchange_weak(now, front ? pack(first + count, end) : pack(first, end - count),
                                     std::memory_order_relaxed)) {
        (front ? end : first) = front ? first + count : end - count;
        return true;
      }
    }
  }

  const std::int64_t rows_, at_once_, least_, shares_;
  std::array<Left, kMost> left_;
};

}  // namespace stoa::ops::cpu
