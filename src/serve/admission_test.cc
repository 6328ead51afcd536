#include "serve/admission.h"

#include <gmock/gmock.h>

#include "serve/error.h"

namespace stoa::serve {
namespace {

// Where requests take turns, a short one waits for its share of the others, not for all of a long one.
TEST(Admission, ShortRequestsInTurnsAreNotRefusedForALongOne) {
  Admission admission(5, 100, true);
  admission.measured(0.1, 100);  // 1 ms per token
  const auto of_long = admission.enter("", 100000, 0);
  for (int i = 0; i < 3; ++i) admission.leave(admission.enter("", 4, 0), 4, 0);
  EXPECT_THROW(admission.enter("", 6000, 0), ApiError) << "6 s of its turns";
  admission.leave(of_long, 100000, 0);
  admission.leave(admission.enter("", 100000, 0), 100000, 0);
}

TEST(Admission, RequestsWaitForAllThatIsOpen) {
  Admission admission(5, 100);
  admission.measured(0.1, 100);
  const auto of_long = admission.enter("", 100000, 0);
  EXPECT_THROW(admission.enter("", 4, 0), ApiError);
  admission.leave(of_long, 100000, 0);
}

// Who has asked for little is next, and is not refused for what others ask for.
TEST(Admission, OwnersTakeTurns) {
  for (const bool in_turns : {false, true}) {
    Admission admission(5, 100, in_turns);
    admission.measured(0.1, 100);
    const auto many = admission.enter("a", 4000, 0), more = admission.enter("a", 1200, 0);
    EXPECT_THROW(admission.enter("a", 3000, 0), ApiError);
    const auto other = admission.enter("b", 1500, 0);
    EXPECT_THROW(admission.enter("b", 4000, 0), ApiError);
    admission.leave(other, 1500, 0);
    admission.leave(many, 4000, 0);
    admission.leave(admission.enter("a", 3000, 0), 3000, 0);
    admission.leave(more, 1200, 0);
  }
}

}  // namespace
}  // namespace stoa::serve
