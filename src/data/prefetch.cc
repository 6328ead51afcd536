#include "data/prefetch.h"

#include "base/error.h"

namespace stoa::data {

Prefetcher::Prefetcher(std::int64_t first, int depth, Make make)
    : make_(std::move(make)), first_(first), made_(first), taken_(first) {
  require<ConfigError>(depth >= 1, "a prefetcher prepares at least 1 batch ahead, got {}", depth);
  ring_.resize(static_cast<std::size_t>(depth) + 1);
  thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
}

Prefetcher::~Prefetcher() = default;  // ~jthread requests the stop, which wakes the waits, and joins

void Prefetcher::work(const std::stop_token& stop) {
  const auto slots = static_cast<std::int64_t>(ring_.size());
  while (!stop.stop_requested()) {
    std::int64_t number;
    {
      std::unique_lock lock(mutex_);
      const auto room = [&] { return made_ - taken_ + (holding_ ? 1 : 0) < slots; };
      if (!changed_.wait(lock, stop, room)) return;
      number = made_;
    }
    bool more = false;
    std::exception_ptr error;
    try {
      more = make_(number, ring_[static_cast<std::size_t>((number - first_) % slots)], stop);
    } catch (...) {
      error = std::current_exception();
    }
    std::lock_guard lock(mutex_);
    if (more) {
      ++made_;
    } else {
      error_ = error;
      ended_ = true;
    }
    changed_.notify_all();
    if (ended_) return;
  }
}

Batch* Prefetcher::next() {
  std::unique_lock lock(mutex_);
  holding_ = false;
  changed_.notify_all();
  changed_.wait(lock, [&] { return made_ > taken_ || ended_; });
  if (made_ > taken_) {
    holding_ = true;
    return &ring_[static_cast<std::size_t>((taken_++ - first_) % static_cast<std::int64_t>(ring_.size()))];
  }
  if (error_) std::rethrow_exception(error_);
  return nullptr;
}

}  // namespace stoa::data
