// Rows copied between places, and attention of parts merged: every backend that has the operations, against
// the reference.
#include "ops/attention_cases.h"
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

TEST_P(BackendTest, Combine) {
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16})
    for (const std::int64_t n : {1, 1003, 70001}) {
      SCOPED_TRACE(fmt::format("{} elements of {}", n, name_of(type)));
      Tensors t;
      const TensorView x = t.random(type, {n});
      expect_like_reference(backend(), Combine{1.5, -0.25, x, t.random(type, {n})});
      expect_like_reference(backend(), Combine{-0.75, 0, x, x});
      t.expect_guards();
    }
}

TEST_P(BackendTest, ScaleMatrix) {
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16})
    for (const std::int64_t n : {1, 67, 3000})
      for (const int given : {0, 1, 2, 7}) {
        SCOPED_TRACE(fmt::format("{} {} columns, factors {}", name_of(type), n, given));
        Tensors t;
        ScaleMatrix op{.x = t.random(type, {37, n}, 1, 5), .rows = {}, .columns = {}, .bias = {}, .y = {}};
        if (given & 1) op.rows = t.random(DType::kF32, {37});
        if (given & 2) op.columns = t.random(DType::kF32, {n});
        if (given & 4) op.bias = t.random(DType::kF32, {n});
        op.y = t.random(type, {37, n}, 1, 3);
        for (const bool accumulate : {false, true}) {
          op.accumulate = accumulate;
          expect_like_reference(backend(), op);
        }
        ScaleMatrix in_place = op;
        in_place.y = op.x, in_place.accumulate = false;
        expect_like_reference(backend(), in_place);
        t.expect_guards();
      }
}

TEST_P(BackendTest, SumsOfProductsByColumnAndRow) {
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16})
    for (const std::int64_t n : {1, 67, 3000})
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(fmt::format("{} {} columns, accumulate {}", name_of(type), n, accumulate));
        Tensors t;
        const TensorView x = t.random(type, {37, n}, 1, 5), y = t.random(type, {37, n}, 1, 2);
        expect_like_reference(backend(), ScaleMatrixBackward{x, y, t.random(DType::kF32, {n}), accumulate});
        expect_like_reference(backend(), RowDots{x, y, t.random(DType::kF32, {37}), accumulate});
        expect_like_reference(backend(), RowDots{x, x, t.random(DType::kF32, {37}), accumulate});
        t.expect_guards();
      }
  Tensors t;
  const TensorView x = t.of(DType::kF32, {4}, {4, 0.25, 0, -1e-9}), y = t.empty(DType::kF32, {4});
  run_on(backend(), InverseRoot{x, y});
  EXPECT_EQ(load(y), (Values{0.5, 2, 0, 0}));
}

TEST_P(BackendTest, LatentHeads) {
  struct Size {
    std::int64_t rope, own, value, gap;
  };
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16})
    for (const Size& s : {Size{4, 3, 5, 5}, Size{4, 3, 7, 5}, Size{8, 16, 24, 8}, Size{8, 16, 16, 4}}) {
      SCOPED_TRACE(fmt::format("{} heads of {} + {} and {}", name_of(type), s.rope, s.own, s.value));
      Tensors t;
      const std::int64_t whole = s.rope + s.own, narrow = s.own + s.value;
      const LatentHeads op{t.random(type, {37, 6, narrow}), t.random(type, {37, s.rope}, 1, s.gap),
                           t.empty(type, {37, 6, whole}), t.empty(type, {37, 6, whole})};
      expect_like_reference(backend(), op);
      run_on(backend(), op);
      const Values kv = load(op.kv), rope = load(op.rope), k = load(op.k), v = load(op.v);
      for (std::int64_t row = 0; row < 37 * 6; ++row)
        for (std::int64_t i = 0; i < whole; ++i) {
          ASSERT_EQ(k[row * whole + i],
                    i < s.rope ? rope[row / 6 * s.rope + i] : kv[row * narrow + i - s.rope]);
          ASSERT_EQ(v[row * whole + i], i < s.value ? kv[row * narrow + s.own + i] : 0);
        }
      expect_like_reference(
          backend(), LatentHeadsBackward{t.random(type, {37, 6, whole}), t.random(type, {37, 6, whole}),
                                         t.empty(type, {37, 6, narrow}), t.empty(type, {37, s.rope}, s.gap)});
      t.expect_guards();
    }
}

TEST_P(BackendTest, AttentionMerge) {
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const std::int64_t d : {1, 16, 70}) {
      SCOPED_TRACE(fmt::format("{} heads of {}", name_of(type), d));
      Tensors t;
      const double nothing = -std::numeric_limits<double>::infinity();
      // Neither, one or both have seen keys; shares from half to next to nothing.
      const TensorView part_lse = t.of(DType::kF32, {3, 2}, {nothing, 0.5, nothing, 1, -2, 90}),
                       lse = t.of(DType::kF32, {3, 2}, {nothing, nothing, 2, 1.25, 30, -3});
      expect_like_reference(backend(), AttentionMerge{t.random(type, {3, 2, d}), part_lse,
                                                      t.random(DType::kF32, {3, 2, d}), lse});
      t.expect_guards();
    }
  }
}

TEST_P(BackendTest, AttentionSinks) {
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16})
    for (const std::int64_t d : {1, 16, 70})
      for (const std::int64_t tokens : {1, 3, 70}) {
        SCOPED_TRACE(fmt::format("{} {} tokens, heads of {}", name_of(type), tokens, d));
        Tensors t;
        const TensorView sinks = t.of(DType::kF32, {3}, {0.5, -40, 60}), o = t.random(type, {tokens, 3, d}),
                         dout = t.random(type, {tokens, 3, d}), lse = t.random(DType::kF32, {tokens, 3}, 3);
        if (tokens > 1) lse.as<float>()[1] = -std::numeric_limits<float>::infinity();  // saw no key
        expect_like_reference(backend(), AttentionSink{sinks, t.copy(o), t.copy(lse)});
        run_reference(AttentionSink{sinks, o, lse});
        for (const bool accumulate : {false, true})
          expect_like_reference(
              backend(), AttentionSinkBackward{sinks, o, dout, lse, t.random(DType::kF32, {3}), accumulate});
        t.expect_guards();
      }
}

// The definition: attention to all keys at once.
TEST(AttentionMergeOp, IsAttentionToAllKeys) {
  Tensors t;
  const AttentionForward all = make_attention(t, {"all", 4, 2, 8, {{6, 20}}}, DType::kF64);
  run_reference(all);
  const auto some = [&](std::int64_t first, std::int64_t count) {
    AttentionForward op = all;
    op.k = all.k.slice(first, count);
    op.v = all.v.slice(first, count);
    op.segments.k_count = t.int32({static_cast<std::int32_t>(count)});
    op.segments.behind = t.int32({static_cast<std::int32_t>(20 - first - count)});
    op.o = t.empty(DType::kF64, all.o.shape);
    op.lse = t.empty(DType::kF64, all.lse.shape);
    run_reference(op);
    return op;
  };
  const AttentionForward late = some(12, 8), early = some(0, 12);
  run_reference(AttentionMerge{early.o, early.lse, late.o, late.lse});
  const Values o = load(all.o), lse = load(all.lse), merged = load(late.o), merged_lse = load(late.lse);
  for (std::size_t i = 0; i < o.size(); ++i) EXPECT_NEAR(merged[i], o[i], 1e-14);
  for (std::size_t i = 0; i < lse.size(); ++i) EXPECT_NEAR(merged_lse[i], lse[i], 1e-14);
}

}  // namespace stoa::ops::testing
