// One operation of a group of processes in flight: rounds of messages, and the computation that is done
// between the rounds.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/processes/process_link.h"

namespace stoa::comm {

class ProcessOperation {
 public:
  // `group`: "tp group (ranks 4, 5)"; `name`: "all_reduce(sum)"; `view`: what it is asked for.
  ProcessOperation(ProcessLink& link, const std::string& group, std::string name, TensorView view,
                   Activity activity, int tag)
      : link_(link), group_(group), name_(std::move(name)), view_(view), activity_(activity), tag_(tag) {}
  ProcessOperation(const ProcessOperation&) = delete;
  ProcessOperation& operator=(const ProcessOperation&) = delete;
  ~ProcessOperation() { withdraw(); }

  // Messages of this round. `peer`: a rank of the world. Any length.
  void send(const void* data, std::size_t bytes, int peer);
  void receive(void* data, std::size_t bytes, int peer);
  // When all messages so far are done; it may add messages and a further round.
  void then(std::function<void()> action) { rounds_.push_back(std::move(action)); }

  // Continues as far as it can without waiting. True when done. CommError: a message does not fit.
  bool advance();
  bool done() const { return open_.empty() && rounds_.empty(); }
  // Nothing of it touches memory of this process any more.
  void withdraw() noexcept;

  // "tp group (ranks 0, 1): all_reduce(sum) fp32[4] (16 bytes) in forward, microbatch 3"
  std::string text() const;
  // Ranks whose messages are missing, then ranks that did not take ours; each once.
  std::vector<int> awaited() const;

 private:
  struct Message {
    ProcessLink::Handle handle;
    std::size_t bytes;
    int peer;
    bool incoming;
  };

  ProcessLink& link_;
  const std::string& group_;
  const std::string name_;
  const TensorView view_;
  const Activity activity_;
  const int tag_;
  std::vector<Message> open_;
  std::deque<std::function<void()>> rounds_;
};

}  // namespace stoa::comm
