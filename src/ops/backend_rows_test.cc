// Rows copied between places: every backend that has the operation, against the reference.
#include "ops/backend_suite.h"
#include "ops/op_test_util.h"

namespace stoa::ops::testing {

TEST_P(BackendTest, CopyRows) {
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const std::int64_t d : {1, 7, 64, 3000}) {
      for (const bool indexed : {false, true}) {
        SCOPED_TRACE(fmt::format("{} {}{}", name_of(type), d, indexed ? " by index" : ""));
        Tensors t;
        CopyRows op{t.random(type, {37, d}, 1, 5), {}, t.empty(type, {indexed ? 50 : 37, d}, 3)};
        if (indexed) op.index = t.random_int32(50, 37);
        expect_like_reference(backend(), op);
        run_on(backend(), op);
        const Values x = load(op.x), y = load(op.y);
        for (std::int64_t i = 0; i < op.y.elements(); ++i) {
          const std::int64_t row = indexed ? op.index.as<std::int32_t>()[i / d] : i / d;
          ASSERT_EQ(y[i], x[row * d + i % d]);
        }
        t.expect_guards();
      }
    }
  }
}

}  // namespace stoa::ops::testing
