// The token that a greedy answer takes: every backend, exactly as the reference.
#include <bit>

#include "ops/backend_suite.h"
#include "ops/op_test_util.h"

namespace stoa::ops::testing {

TEST_P(BackendTest, MostLikely) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                  kInfinity = std::numeric_limits<float>::infinity();
  for (const std::int64_t width : {1, 31, 512, 513, 5000, 40000}) {
    SCOPED_TRACE(width);
    Tensors t;
    const TensorView logits = t.random(DType::kF32, {8, width}, 1, 5), own = t.empty(DType::kI32, {8, 2}),
                     trusted = t.copy(own), equals = t.random_int32(8 * width, 20);
    for (std::int64_t row = 2; row < 8; ++row)
      for (std::int64_t i = 0; i < width; ++i) {
        float& x = logits.row<float>(row)[i];
        const std::int32_t draw = equals.as<std::int32_t>()[row * width + i];
        x = static_cast<float>(draw % 10);  // many are equal
        if (row == 3 && draw == 19) x = kNan;
        if (row == 4 && i % kMostLikelyBlock == 0) x = kNan;
        if (row == 5) x = kNan;
        if (row == 6) x = draw == 19 ? kInfinity : -kInfinity;
        if (row == 7) x = -kInfinity;
      }
    run_on(backend(), MostLikely{logits, own});
    run_reference(MostLikely{logits, trusted});
    EXPECT_EQ(load_integers(own), load_integers(trusted));
    for (std::int64_t row = 0; row < 8; ++row) {
      const std::int32_t *found = own.row<std::int32_t>(row), id = found[0];
      ASSERT_TRUE(id >= 0 && id < width);
      EXPECT_EQ(found[1], std::bit_cast<std::int32_t>(logits.row<float>(row)[id]));
      if (row > 2) continue;
      for (std::int64_t i = 0; i < width; ++i)
        EXPECT_TRUE(i < id ? logits.row<float>(row)[i] < logits.row<float>(row)[id]
                           : logits.row<float>(row)[i] <= logits.row<float>(row)[id]);
    }
    t.expect_guards();
  }
}

}  // namespace stoa::ops::testing
