#include "plan/offload_time.h"

#include <algorithm>

#include "nn/offload_ring.h"

namespace stoa::plan {

OffloadWait offload_wait(const OffloadedChunk& chunk) {
  constexpr double kPlaces = nn::OffloadRing::kMostPlaces;
  const double n = chunk.offloaded, c = chunk.copy, f = chunk.forward, b = chunk.backward;
  OffloadWait out;
  if (n < 1) return out;
  // A layer opens the next one's place, which must be free. Copies that take longer than layers follow each
  // other without a gap from the end of the first layer on.
  if (n > kPlaces) out.forward = std::max(0.0, (n - kPlaces) * (c - f));
  // When the last offloaded layer has run its copy is this far from its end; the way back begins after it.
  const double behind = c <= f ? c : f + n * c - (n * f + out.forward);
  const double cover = chunk.kept * (chunk.turns ? f + b : b) + chunk.end;
  const double begun = (chunk.turns ? behind : 0) - cover;
  // Late from the start; late all the way; or in time for a full ring, and late once its first place is free.
  const double refilled = n > kPlaces ? (n - kPlaces) * c - (n - kPlaces + 1) * b : 0;
  out.backward = std::max({0.0, begun + c, begun + n * c - (n - 1) * b, refilled});
  return out;
}

}  // namespace stoa::plan
