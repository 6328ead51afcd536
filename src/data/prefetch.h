// A background thread that prepares the next batches while the current one is computed.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "data/batch.h"

namespace stoa::data {

class Prefetcher {
 public:
  // Fills `batch`, reusing its buffers, with batch number `number`; returns false when there is none. Runs on
  // the background thread; may look at the stop token where it waits.
  using Make = std::function<bool(std::int64_t number, Batch& batch, const std::stop_token& stop)>;

  // Prepares batches first, first + 1, … up to `depth` >= 1 ahead of the consumer.
  Prefetcher(std::int64_t first, int depth, Make make);
  ~Prefetcher();  // stops the thread and waits for the batch it is at
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The next batch, the consumer's until the next call; null after the last one. Waits for it. An exception
  // that `make` threw comes out here, at its batch, and again at every later call. One consumer thread.
  Batch* next();

 private:
  void work(const std::stop_token& stop);

  const Make make_;
  std::vector<Batch> ring_;  // depth + 1: one is in the consumer's hands
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::int64_t first_, made_, taken_;  // numbers: next to be made, next to be taken
  bool holding_ = false;               // the consumer still reads batch taken_ - 1
  bool ended_ = false;
  std::exception_ptr error_;
  std::jthread thread_;  // last: it starts when all else exists, and is joined first
};

}  // namespace stoa::data
