#include "comm/threads/thread_letter.h"

#include <algorithm>
#include <cstring>

namespace stoa::comm {

namespace {

constexpr std::size_t kAhead = 64;  // cache lines; more stores than a core buffers would hold it up

}  // namespace

void Outbox::add_blank() { letters_.push_back(std::make_unique<Letter>()); }

void Outbox::send(const Heading& heading, const TensorView& in, const Activity& activity, bool with_data,
                  std::uint64_t finished, std::uint64_t read_by_all) {
  Letter& letter = *letters_.back();
  const std::size_t bytes = with_data ? heading.bytes() : 0;
  const std::size_t lines = (bytes + sizeof(Letter::CacheLine) - 1) / sizeof(Letter::CacheLine);
  if (letter.memory.size() < lines) letter.memory.resize(lines);
  if (bytes > 0) std::memcpy(letter.memory.data(), in.data, bytes);
  if (letters_.size() > 1 && letters_.front()->stamp.load(std::memory_order_relaxed) <= read_by_all) {
    letters_.push_back(std::move(letters_.front()));
    letters_.pop_front();
  } else {
    add_blank();
  }
  letter.heading = heading;
  letter.data = letter.memory.data();
  letter.next = letters_.back().get();
  letter.finished = finished;
  letter.in = in;
  letter.activity = activity;
  letter.stamp = ++sent_;
  // The next letter's lines are fetched from those who read them last, while this rank waits for the others.
  std::vector<Letter::CacheLine>& ahead = letters_.back()->memory;
  for (std::size_t i = 0; i < std::min({lines, ahead.size(), kAhead}); ++i) ahead[i].bytes[0] = {};
}

}  // namespace stoa::comm
