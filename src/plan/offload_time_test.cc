#include "plan/offload_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "nn/offload_ring.h"

namespace stoa::plan {
namespace {

// The same, event by event: forward over the layers of a chunk and backward after it.
OffloadWait event_by_event(const OffloadedChunk& chunk) {
  const int layers = static_cast<int>(chunk.offloaded),
            places = std::min(nn::OffloadRing::kMostPlaces, layers);
  std::vector<double> away(static_cast<std::size_t>(layers));
  double now = 0, link = 0;
  for (int i = 0; i < layers; ++i) {
    if (i + 1 < layers && i + 1 >= places)
      now = std::max(now, away[static_cast<std::size_t>(i + 1 - places)]);
    now += chunk.forward;
    link = std::max(link, now) + chunk.copy;
    away[static_cast<std::size_t>(i)] = link;
  }
  OffloadWait out;
  out.forward = now - chunk.offloaded * chunk.forward;
  if (chunk.turns)
    now += chunk.kept * chunk.forward;
  else
    std::fill(away.begin(), away.end(), now);  // long since
  now += chunk.kept * chunk.backward + chunk.end;
  const double began = now;
  std::vector<double> released;
  double back = now - (chunk.kept * chunk.backward + chunk.end);
  for (int k = 0; k < layers; ++k) {  // the k-th that backward wants
    const auto at = static_cast<std::size_t>(layers - 1 - k);
    const double free = k >= places ? released[static_cast<std::size_t>(k - places)] : 0;
    back = std::max({back, free, away[at]}) + chunk.copy;
    now = std::max(now, back) + chunk.backward;
    released.push_back(now);
  }
  out.backward = now - began - chunk.offloaded * chunk.backward;
  return out;
}

TEST(OffloadTime, ClosedFormIsTheSimulation) {
  for (const double offloaded : {1, 2, 3, 4, 7, 24})
    for (const double kept : {0, 1, 5})
      for (const double copy : {0.2, 0.9, 1.0, 1.7, 2.0, 3.5, 9.0})
        for (const double end : {0.0, 2.5}) {
          // The way back of a chunk that turns begins with the copies that the way out has left.
          const OffloadedChunk chunk{offloaded, kept, copy, 1, 2, end, false};
          const OffloadWait expected = event_by_event(chunk), got = offload_wait(chunk);
          EXPECT_NEAR(got.forward, expected.forward, 1e-12) << offloaded << " " << copy;
          EXPECT_NEAR(got.backward, expected.backward, 1e-12) << offloaded << " " << kept << " " << copy;
        }
}

// Where forward and backward meet, the two ways share what is under way: the closed form is no shorter, and
// no longer than by the copies of one ring.
TEST(OffloadTime, AtTheEndOfTheModelItBoundsTheSimulation) {
  for (const double offloaded : {1, 2, 3, 4, 7, 24})
    for (const double kept : {0, 1, 5})
      for (const double copy : {0.2, 0.9, 1.0, 1.7, 2.0, 3.5, 9.0}) {
        const OffloadedChunk chunk{offloaded, kept, copy, 1, 2, 0.5, true};
        const OffloadWait expected = event_by_event(chunk), got = offload_wait(chunk);
        EXPECT_NEAR(got.forward, expected.forward, 1e-12);
        EXPECT_GE(got.backward, expected.backward - 1e-12) << offloaded << " " << kept << " " << copy;
        EXPECT_LE(got.backward, expected.backward + nn::OffloadRing::kMostPlaces * copy);
      }
}

TEST(OffloadTime, GrowsWithTheLayersThatAreMoved) {
  for (const bool turns : {false, true})
    for (const double copy : {0.5, 1.5, 4.0}) {
      double before = 0;
      for (int n = 0; n <= 12; ++n) {
        const OffloadWait wait = offload_wait({static_cast<double>(n), 12.0 - n, copy, 1, 2, 0.5, turns});
        EXPECT_GE(wait.forward + wait.backward, before - 1e-12) << n << " " << copy;
        before = wait.forward + wait.backward;
      }
    }
}

}  // namespace
}  // namespace stoa::plan
