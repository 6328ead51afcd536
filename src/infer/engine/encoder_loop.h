// Texts of many requests, read by one encoder on a thread of its own. The engine's scheduler chooses the
// texts of each pass within a budget of tokens: a text is what the source of an encoder-decoder is, whose
// target is never written. Tenants take turns by the tokens that were read for them, and so do the requests
// of each, so that a short one does not wait for a long one.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "infer/engine/scheduler.h"

namespace stoa::infer {

class EncoderLoop {
 public:
  using Emit = std::function<void(std::span<const double> vector)>;
  // Emits a vector for each of concatenated texts.
  using Read = std::function<void(std::span<const std::int32_t> tokens, std::span<const std::int64_t> lengths,
                                  const Emit& emit)>;
  // The vectors of a request's texts; or what failed.
  using Done = std::function<void(std::vector<std::vector<double>> vectors, std::exception_ptr error)>;
  struct Counters {
    std::int64_t requests = 0, texts = 0;  // that are open
  };

  // `longest`: tokens of a text; `pass_tokens`: of a pass, which holds a longer text alone. `begin` is called
  // on the loop's thread before it reads.
  EncoderLoop(std::int64_t longest, std::int64_t pass_tokens, std::function<void()> begin, Read read);
  // What is open fails (CommError).
  ~EncoderLoop();
  EncoderLoop(const EncoderLoop&) = delete;
  EncoderLoop& operator=(const EncoderLoop&) = delete;

  // `texts`: at least one, each of 1 to `longest` ids. `done` is called once, on the loop's thread; it must
  // not take long, nor throw.
  std::int64_t submit(std::vector<std::vector<std::int32_t>> texts, Done done, std::string tenant = {});
  // It fails (CommError), unless it has ended.
  void cancel(std::int64_t request);
  // What is open fails with this error.
  void fail_all(const std::exception_ptr& error);
  Counters counters() const;

 private:
  struct Request {
    std::vector<std::vector<double>> vectors;
    std::int64_t left = 0;  // texts
    Done done;
  };
  struct Order {
    std::int64_t request;
    std::vector<std::vector<std::int32_t>> texts;  // none: cancel it
    Done done;
    std::string tenant;
  };
  struct Place {
    std::int64_t request;
    std::size_t text;
  };
  void run();
  void take(Order& order);
  void pass();
  void read_texts(std::span<const SequenceId> ids, std::span<const std::int32_t> tokens,
                  std::span<const std::int64_t> lengths);
  // Removes its texts; returns what is to be called.
  Done drop(std::int64_t request);

  const std::function<void()> begin_;
  const Read read_;
  Scheduler scheduler_;
  std::map<std::int64_t, Request> open_;
  std::map<SequenceId, Place> places_;
  std::int64_t texts_ = 0;  // that were ever added

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Order> orders_;
  std::exception_ptr failure_;  // of all that is open
  Counters counters_;
  std::int64_t next_id_ = 1;
  bool stop_ = false;
  std::thread thread_;  // the last: it uses the others
};

}  // namespace stoa::infer
