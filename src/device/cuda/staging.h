// Where copies to a device wait for their turn: a ring of pinned pieces. A piece is reused when the event
// behind its copy has passed. Pure bookkeeping over an interface, so that it is tested without a GPU.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>

namespace stoa::cuda {

class StagingRing {
 public:
  explicit StagingRing(std::size_t capacity) : capacity_(capacity) {}

  // Offset of `bytes` (at most capacity / 2) that nothing in flight uses. `wait(ticket)` blocks until the
  // copies up to that ticket are done.
  std::size_t take(std::size_t bytes, const std::function<void(std::size_t ticket)>& wait);
  // What was taken since the last call is in flight until `ticket` is done. Tickets grow.
  void in_flight(std::size_t ticket);
  std::size_t capacity() const { return capacity_; }

 private:
  struct Piece {
    std::size_t begin, end, ticket;
  };
  bool overlaps(std::size_t begin, std::size_t end) const;

  std::size_t capacity_, next_ = 0;
  std::deque<Piece> pieces_;  // oldest first; ticket 0: not submitted yet
};

}  // namespace stoa::cuda
