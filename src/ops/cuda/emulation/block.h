// Runs a grid of blocks on the calling thread. The threads of a block are fibers: each runs until it waits
// for the others. Shared memory is poisoned before every block, so that what a kernel did not write is NaN;
// barriers that not all threads reach are errors. What is copied while a thread continues is poison
// until the thread has waited for it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#include "ops/cuda/emulation/async_proxy.h"
#include "ops/cuda/emulation/fiber.h"

namespace stoa::ops::cuda {
class Thread;
}

namespace stoa::ops::cuda::emulation {

class Block {
 public:
  Block(const char* kernel, std::int64_t blocks_x, std::int64_t blocks_y, int threads, std::size_t shared);

  void run(std::int64_t x, std::int64_t y, const std::function<void(const Thread&)>& body);

  // Asked by the threads.
  int threads() const { return threads_; }
  std::int64_t x() const { return x_; }
  std::int64_t y() const { return y_; }
  std::int64_t blocks_x() const { return blocks_x_; }
  void* shared() const { return shared_; }
  void sync(int thread);
  void sync_warp(int thread);
  // What a lane gives; all lanes of its warp can read it until the exchange after the next.
  struct Slot {
    alignas(16) std::array<std::byte, 64> bytes;
  };
  template <class T>
  const Slot* exchange(int thread, const T& mine) {  // slots of the warp's 32 lanes
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(Slot));
    auto& slots = slots_[thread / 32][states_[thread].exchanges++ % 2];
    std::memcpy(slots[thread % 32].bytes.data(), &mine, sizeof(T));
    wait(thread, Waits::kWarp);
    return slots.data();
  }
  // Copies of 16 bytes to shared memory, made when they are waited for. `from` null: zeros.
  void copy_later(int thread, void* to, const void* from);
  void commit_copies(int thread);
  void wait_copies(int thread, int left);  // for all but the last `left` groups
  AsyncProxy& async_proxy() { return async_proxy_; }

 private:
  enum class Waits : std::uint8_t { kNothing, kWarp, kBlock, kDone };
  struct Copy {
    void* to;
    const void* from;
  };
  struct State {
    Waits waits = Waits::kNothing;
    std::unique_ptr<Fiber> fiber;
    int exchanges = 0;
    std::vector<Copy> copies;            // that were asked for and not waited for
    std::vector<std::ptrdiff_t> groups;  // how many of them stand up to the end of each group
  };

  void advance(int thread);  // and those behind it that it passes to
  void advance_warp(int warp);
  [[noreturn]] void diverged(const char* where) const;
  void wait(int thread, Waits what);

  const char* kernel_;
  const std::int64_t blocks_x_, blocks_y_;
  const int threads_;
  std::int64_t x_ = 0, y_ = 0;
  const std::function<void(const Thread&)>* body_ = nullptr;
  int running_ = 0;  // thread, or the one that ran last
  int at_warp_ = 0;  // lanes of its warp that have come to the exchange
  std::vector<std::byte> memory_;
  std::size_t shared_bytes_;
  void* shared_ = nullptr;
  std::vector<State> states_;
  std::vector<std::unique_ptr<Fiber>> idle_;
  std::vector<std::array<std::array<Slot, 32>, 2>> slots_;  // [warp][parity]
  AsyncProxy async_proxy_;
};

// `most_threads`: what the kernel was declared for.
void run_grid(const char* kernel, std::int64_t blocks_x, std::int64_t blocks_y, int threads, int most_threads,
              std::size_t shared, const std::function<void(const Thread&)>& body);

}  // namespace stoa::ops::cuda::emulation
