// One member's end of the letters of a group: what it has requested and not yet received.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "comm/threads/thread_group.h"
#include "comm/threads/thread_letter.h"

namespace stoa::comm {

// What a member asks of a collective.
struct Request {
  Heading heading;
  TensorView in, out;
  Activity activity = {};
};

class LetterExchange {
 public:
  LetterExchange(ThreadGroup& group, int member);

  // Whether a collective goes by letters: the same answer for all members whose requests agree.
  bool takes(const Heading& heading) const;
  // Tells the others. A collective that does not go by letters is announced too, so that no letter of one is
  // taken for the other. Returns its number.
  std::uint64_t post(const Request& request);

  bool done(std::uint64_t number) const { return number < first_; }
  // Takes every letter that has come. CommError when requests do not agree (which takes the world down).
  bool poll(std::uint64_t number);
  // Blocks until done. CommError on abort and timeout; then the caller's memory is no longer touched.
  void wait(std::uint64_t number);
  void leave(std::uint64_t number);  // its output is not written any more
  // Says what this member waits for, if others have asked since `answered`.
  void answer(std::uint64_t number, std::uint64_t& answered) const;

 private:
  struct Pending {
    Request request;
    bool by_letter = false;  // and its output is needed
  };

  bool front_arrived() const;
  void finish_front();
  void deliver(const Request& request);
  [[noreturn]] void refuse(int member);
  WaitState state_of(std::uint64_t number) const;
  const std::byte* data_of(const Request& request, int member) const;
  // For messages. Null while `member` has not asked for it.
  std::unique_ptr<ThreadOperation> described(std::uint64_t number, int member) const;

  ThreadGroup& group_;
  const int member_;
  std::vector<const Letter*> next_;      // per member: the letter that is to come from it
  std::vector<std::uint64_t> finished_;  // per member: as its last letter said
  std::deque<Pending> pending_;
  std::uint64_t first_ = 0;  // number of pending_'s first
  bool refused_ = false;     // requests did not agree: nothing is written any more
  std::vector<const void*> inputs_;
};

}  // namespace stoa::comm
