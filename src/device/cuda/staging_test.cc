#include "device/cuda/staging.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace stoa::cuda {
namespace {

struct Waits {
  std::vector<std::size_t> tickets;
  auto hook() {
    return [this](std::size_t ticket) { tickets.push_back(ticket); };
  }
};

TEST(StagingRing, PiecesInFlightAreNotReused) {
  StagingRing ring(4096);
  Waits waits;
  EXPECT_EQ(ring.take(1000, waits.hook()), 0u);
  ring.in_flight(1);
  EXPECT_EQ(ring.take(2048, waits.hook()), 1024u);
  ring.in_flight(2);
  EXPECT_TRUE(waits.tickets.empty());
  // 1024 bytes are left: the next one begins anew and waits for the first, not for the second.
  EXPECT_EQ(ring.take(1024, waits.hook()), 3072u);
  ring.in_flight(3);
  EXPECT_TRUE(waits.tickets.empty());
  EXPECT_EQ(ring.take(512, waits.hook()), 0u);
  EXPECT_EQ(waits.tickets, std::vector<std::size_t>({1}));
}

TEST(StagingRing, OneSubmissionOfSeveralPiecesHasOneTicket) {
  StagingRing ring(4096);
  Waits waits;
  ring.take(1024, waits.hook());
  ring.take(1024, waits.hook());
  ring.in_flight(7);
  ring.take(1024, waits.hook());
  ring.in_flight(8);
  ring.take(1024, waits.hook());
  ring.in_flight(9);
  EXPECT_EQ(ring.take(2048, waits.hook()), 0u);
  EXPECT_EQ(waits.tickets, std::vector<std::size_t>({7}));
}

TEST(StagingRing, TooMuchIsAnErrorAndNotOverwritten) {
  StagingRing ring(2048);
  Waits waits;
  EXPECT_THROW(ring.take(1025, waits.hook()), InternalError);
  ring.take(1024, waits.hook());
  ring.take(1024, waits.hook());
  EXPECT_THROW(ring.take(256, waits.hook()), InternalError);  // nothing was submitted: it would wait forever
}

}  // namespace
}  // namespace stoa::cuda
