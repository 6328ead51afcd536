#include "device/cuda/staging.h"

#include "base/error.h"

namespace stoa::cuda {

bool StagingRing::overlaps(std::size_t begin, std::size_t end) const {
  for (const Piece& piece : pieces_)
    if (begin < piece.end && piece.begin < end) return true;
  return false;
}

std::size_t StagingRing::take(std::size_t bytes, const std::function<void(std::size_t)>& wait) {
  const std::size_t size = (bytes + 255) / 256 * 256;
  require<InternalError>(size <= capacity_ / 2, "a copy of {} bytes in a staging ring of {}", bytes,
                         capacity_);
  if (next_ + size > capacity_) next_ = 0;
  const std::size_t begin = next_;
  while (overlaps(begin, begin + size)) {
    require<InternalError>(pieces_.front().ticket != 0,
                           "staging of one submission exceeds its ring of {} bytes", capacity_);
    wait(pieces_.front().ticket);
    const std::size_t done = pieces_.front().ticket;
    while (!pieces_.empty() && pieces_.front().ticket != 0 && pieces_.front().ticket <= done)
      pieces_.pop_front();
  }
  next_ = begin + size;
  pieces_.push_back({begin, begin + size, 0});
  return begin;
}

void StagingRing::in_flight(std::size_t ticket) {
  for (auto piece = pieces_.rbegin(); piece != pieces_.rend() && piece->ticket == 0; ++piece)
    piece->ticket = ticket;
}

}  // namespace stoa::cuda
