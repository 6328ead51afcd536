#include <gtest/gtest.h>

#include "base/error.h"
#include "schedule/generators.h"
#include "schedule/validate.h"

namespace stoa::schedule {
namespace {

TEST(Schedule, OneRankAlternatesForwardAndBackward) {
  const Schedule s = lower(one_forward_one_backward(1, 3));
  EXPECT_EQ(to_text(s), "F0.0 B0.0 F0.1 B0.1 F0.2 B0.2 RD0 STEP\n");
  validate(s);
  EXPECT_EQ(microbatches_in_flight(s, 0), 1);
}

TEST(Schedule, OneForwardOneBackwardWarmsUp) {
  const Schedule s = one_forward_one_backward(2, 3);
  EXPECT_EQ(to_text(s), "F0.0 F0.1 B0.0 F0.2 B0.1 B0.2\nF1.0 B1.0 F1.1 B1.1 F1.2 B1.2\n");
  validate(s);
  EXPECT_EQ(microbatches_in_flight(s, 0), 2);
  const Schedule lowered = lower(s);
  EXPECT_EQ(to_text(lowered),
            "F0.0 SA0.0 F0.1 SA0.1 RG0.0 B0.0 F0.2 RG0.1 SA0.2 B0.1 RG0.2 B0.2 RD0 STEP\n"
            "RA1.0 F1.0 RA1.1 B1.0 SG1.0 F1.1 B1.1 SG1.1 RA1.2 F1.2 B1.2 SG1.2 RD1 STEP\n");
  validate(lowered);
}

TEST(Schedule, GpipeHoldsEveryMicrobatch) {
  const Schedule s = gpipe(3, 4);
  validate(s);
  EXPECT_EQ(microbatches_in_flight(s, 0), 4);
}

TEST(Schedule, ValidatorFindsDeadlockOmissionAndRepetition) {
  Schedule s = one_forward_one_backward(2, 2);
  std::swap(s.ranks[1][0], s.ranks[1][1]);  // backward before forward
  EXPECT_THROW(validate(s), ConfigError);
  s = one_forward_one_backward(2, 2);
  s.ranks[0].pop_back();
  EXPECT_THROW(validate(s), ConfigError);
  s = one_forward_one_backward(1, 2);
  s.ranks[0].push_back({ActionKind::kForward, 0, 0});
  EXPECT_THROW(validate(s), ConfigError);
}

TEST(Schedule, TextFormIsReadBack) {
  const Schedule s = lower(one_forward_one_backward(1, 2));
  std::string line = to_text(s);
  line.pop_back();
  EXPECT_EQ(parse_actions(line), s.ranks[0]);
  EXPECT_THROW(parse_actions("F0.x"), ConfigError);
  EXPECT_THROW(parse_actions("Q0"), ConfigError);
}

}  // namespace
}  // namespace stoa::schedule
