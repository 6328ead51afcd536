#include "ops/cuda/emulation/block.h"

#include <cstring>

#include "base/error.h"
#include "ops/cuda/emulation/thread.h"

namespace stoa::ops::cuda::emulation {

namespace {
constexpr std::size_t kMostShared = 227 << 10;  // of a block, on sm_90
constexpr std::size_t kGuard = 256;
}  // namespace

Block::Block(const char* kernel, std::int64_t blocks_x, std::int64_t blocks_y, int threads,
             std::size_t shared)
    : kernel_(kernel), blocks_x_(blocks_x), blocks_y_(blocks_y), threads_(threads), shared_bytes_(shared) {
  memory_.resize(shared + 2 * kGuard);
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
  shared_ = memory_.data() + (128 - address % 128) % 128;
  states_.resize(static_cast<std::size_t>(threads));
  slots_.resize(static_cast<std::size_t>(threads) / 32);
}

void Block::diverged(const char* where) const {
  std::string text;
  for (int t = 0; t < threads_; ++t) {
    constexpr const char* kNames[] = {"runs", "warp", "block", "done"};
    if (t % 32 == 0) text += fmt::format("\n  warp {}:", t / 32);
    text += fmt::format(" {}", kNames[static_cast<int>(states_[t].waits)]);
  }
  fail<InternalError>("kernel {}, block ({}, {}): not all threads reach {}; they wait for:{}", kernel_, x_,
                      y_, where, text);
}

void Block::wait(int thread, Waits what) {
  State& state = states_[thread];
  state.waits = what;
  at_warp_ += what == Waits::kWarp;
  // On to the next lane, and from the last to the first when all are at the exchange: straight, not by way of
  // advance_warp(), which starts the lanes and sees to those that are done.
  int next = thread + 1;
  if (next % 32 == 0) {
    next = at_warp_ == 32 ? thread - 31 : -1;
    at_warp_ = next < 0 ? at_warp_ : 0;
  }
  if (next >= 0 && states_[next].fiber) {
    running_ = next;
    state.fiber->pass_to(*states_[next].fiber);
  } else {
    state.fiber->suspend();
  }
  state.waits = Waits::kNothing;
}

void Block::sync(int thread) { wait(thread, Waits::kBlock); }
void Block::sync_warp(int thread) { wait(thread, Waits::kWarp); }

void Block::copy_later(int thread, void* to, const void* from) {
  std::memset(to, 0xff, 16);
  async_proxy_.copy_begins(to);
  states_[thread].copies.push_back({to, from});
}
void Block::commit_copies(int thread) {
  State& state = states_[thread];
  state.groups.push_back(std::ssize(state.copies));
}
void Block::wait_copies(int thread, int left) {
  State& state = states_[thread];
  const std::ptrdiff_t done = std::ssize(state.groups) - left;
  if (done <= 0) return;
  const std::ptrdiff_t copies = state.groups[done - 1];
  for (std::ptrdiff_t i = 0; i < copies; ++i) {
    const Copy& copy = state.copies[i];
    if (copy.from)
      std::memcpy(copy.to, copy.from, 16);
    else
      std::memset(copy.to, 0, 16);
    async_proxy_.copy_ends(thread, copy.to);
  }
  state.copies.erase(state.copies.begin(), state.copies.begin() + copies);
  state.groups.erase(state.groups.begin(), state.groups.begin() + done);
  for (std::ptrdiff_t& end : state.groups) end -= copies;
}

void Block::advance(int thread) {
  running_ = thread;
  State& state = states_[thread];
  if (state.waits == Waits::kDone) return;
  if (state.fiber) {
    state.fiber->resume();
  } else {
    if (idle_.empty()) idle_.push_back(std::make_unique<Fiber>());
    state.fiber = std::move(idle_.back());
    idle_.pop_back();
    state.fiber->start([this, thread] { (*body_)(Thread(*this, thread)); });
  }
  State& last = states_[running_];
  if (!last.fiber->done()) return;
  last.fiber->rethrow_error();
  last.waits = Waits::kDone;
  idle_.push_back(std::move(last.fiber));
}

// Until every lane waits for the block or is done.
void Block::advance_warp(int warp) {
  const int end = warp * 32 + 32;
  for (;;) {
    at_warp_ = 0;
    for (int t = end - 32; t < end; t = running_ + 1) advance(t);
    if (at_warp_ == 0) return;
    if (at_warp_ != 32) diverged("an exchange of their warp");
  }
}

void Block::run(std::int64_t x, std::int64_t y, const std::function<void(const Thread&)>& body) {
  x_ = x, y_ = y;
  body_ = &body;
  std::memset(memory_.data(), 0xff, memory_.size());
  async_proxy_.begin_block(shared_, shared_bytes_, threads_);
  for (State& state : states_) {
    state.waits = Waits::kNothing;
    state.exchanges = 0;
    state.copies.clear();
    state.groups.clear();
  }
  for (;;) {
    for (int warp = 0; warp < threads_ / 32; ++warp) advance_warp(warp);
    int at_barrier = 0;
    for (const State& state : states_) at_barrier += state.waits == Waits::kBlock;
    if (at_barrier == 0) break;
    if (at_barrier != threads_) diverged("a barrier");
  }
  for (const State& state : states_)
    require<InternalError>(state.copies.empty(), "kernel {}, block ({}, {}) ended with {} copies under way",
                           kernel_, x_, y_, state.copies.size());
  async_proxy_.end_block();
  const auto* end = memory_.data() + memory_.size();
  for (const std::byte* at = static_cast<std::byte*>(shared_) + shared_bytes_; at < end; ++at)
    require<InternalError>(*at == std::byte{0xff},
                           "kernel {}, block ({}, {}) wrote {} bytes behind its shared memory", kernel_, x_,
                           y_, at - static_cast<std::byte*>(shared_) - shared_bytes_);
}

void run_grid(const char* kernel, std::int64_t blocks_x, std::int64_t blocks_y, int threads, int most_threads,
              std::size_t shared, const std::function<void(const Thread&)>& body) {
  require<InternalError>(threads > 0 && threads % 32 == 0 && threads <= most_threads,
                         "kernel {} is started with {} threads, declared for at most {} in warps of 32",
                         kernel, threads, most_threads);
  require<InternalError>(blocks_x <= 0x7fffffff && blocks_y <= 65535,
                         "kernel {} is started on a grid of {} x {}", kernel, blocks_x, blocks_y);
  require<InternalError>(shared <= kMostShared, "kernel {} asks for {} bytes of shared memory", kernel,
                         shared);
  if (blocks_x <= 0 || blocks_y <= 0) return;
  Block block(kernel, blocks_x, blocks_y, threads, shared);
  // Backwards: blocks come in no particular order.
  for (std::int64_t y = blocks_y - 1; y >= 0; --y)
    for (std::int64_t x = blocks_x - 1; x >= 0; --x) block.run(x, y, body);
}

}  // namespace stoa::ops::cuda::emulation
