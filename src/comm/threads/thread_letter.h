// Small collectives between threads: each member copies its data once, into a letter that all others read. A
// sender does not wait for readers, so a letter is sent at once, and a cache line that another core reads is
// transferred only twice.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/operation_kind.h"

namespace stoa::comm {

// What must be equal in the requests of all members of a collective.
struct Heading {
  OperationKind kind = OperationKind::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  DType dtype = DType::kF32;
  int root = 0;
  std::int64_t elements = 0;  // of a member's input
  bool on_device = false;     // data does not go by letter

  std::size_t bytes() const { return static_cast<std::size_t>(elements) * size_of(dtype); }
  bool operator==(const Heading&) const = default;
};

struct alignas(64) Letter {
  struct alignas(64) CacheLine {
    std::byte bytes[64];
  };

  // A reader touches one cache line and the data.
  std::atomic<std::uint64_t> stamp{
      0};  // 1 + number, once what is below does not change until all have read it
  Heading heading;
  const CacheLine* data = nullptr;
  const Letter* next = nullptr;  // of the same member; not yet sent
  std::uint64_t finished = 0;    // collectives completed by the member: it has read their letters
  // For error messages.
  TensorView in = {};
  Activity activity = {};
  std::vector<CacheLine> memory;

  bool sent(std::uint64_t number) const { return stamp.load() == number + 1; }
};

// The letters of one member, in the order of its collectives.
class Outbox {
 public:
  Outbox() { add_blank(); }

  const Letter& first() const { return *letters_.front(); }  // before any is sent
  // `read_by_all`: letters with lower numbers are reused. `finished`: as in the letter.
  void send(const Heading& heading, const TensorView& in, const Activity& activity, bool with_data,
            std::uint64_t finished, std::uint64_t read_by_all);

 private:
  void add_blank();

  std::uint64_t sent_ = 0;
  std::deque<std::unique_ptr<Letter>> letters_;  // oldest first; the last is blank
};

}  // namespace stoa::comm
