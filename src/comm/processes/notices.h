// Short out-of-band messages between ranks: that a rank fails or is to stop, what a rank waits for. No thread
// blocks on them: they are sent and received whenever a rank polls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "comm/processes/process_link.h"
#include "comm/wait_chain.h"

namespace stoa::comm {

struct Notice {
  enum class Kind : std::uint32_t { kFailure, kQuestion, kAnswer, kStop };
  Kind kind = Kind::kFailure;
  int from = -1;             // filled on arrival
  int code = 0;              // of a failure: the exit status of its rank
  std::uint32_t number = 0;  // of a question, and of its answer
  WaitState state = {};      // of an answer; of a failure the text alone
};

class Notices {
 public:
  explicit Notices(ProcessLink& link);
  ~Notices();
  Notices(const Notices&) = delete;
  Notices& operator=(const Notices&) = delete;

  // Text that is too long is truncated.
  void send(int peer, const Notice& notice);
  // The next that has come. CommError when a rank is gone, once.
  std::optional<Notice> take();
  // Whether all have left. A rank that is gone needs none.
  bool all_sent();

 private:
  struct Outgoing {
    std::string bytes;
    ProcessLink::Handle handle;
  };
  void listen();

  ProcessLink& link_;
  std::vector<char> incoming_;
  ProcessLink::Handle handle_ = nullptr;
  std::list<Outgoing> outgoing_;
};

}  // namespace stoa::comm
