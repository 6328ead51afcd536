#include "ops/attention_cases.h"
#include "ops/backend_suite.h"

namespace stoa::ops::testing {

TEST_P(BackendTest, AttentionForward) {
  for (DType type : kTypes) {
    for (const auto& c : attention_cases()) {
      for (const double scale : {1.0, 6.0}) {  // flat and sharp softmax
        SCOPED_TRACE(fmt::format("{} {} scale {}", name_of(type), c.name, scale));
        Tensors t;
        AttentionForward op = make_attention(t, c, type, scale);
        // Errors of the scores, which grow with the scale, are relative errors of the probabilities.
        const Tolerance tolerance{64 * scale};
        expect_like_reference(backend(), op, tolerance);
        op.lse = {};
        expect_like_reference(backend(), op, tolerance);
        t.expect_guards();
      }
    }
  }
}

TEST_P(BackendTest, AttentionBackward) {
  for (DType type : kTypes) {
    for (const auto& c : attention_cases()) {
      SCOPED_TRACE(fmt::format("{} {}", name_of(type), c.name));
      Tensors t;
      const AttentionForward forward = make_attention(t, c, type);
      run_reference(forward);
      expect_like_reference(backend(), make_backward(t, forward));
      t.expect_guards();
    }
  }
}

// Queries, keys and values as slices of one fused matrix, gradients likewise: nothing else in the matrix is
// touched.
TEST_P(BackendTest, AttentionOfOneFusedMatrix) {
  for (DType type : kTypes) {
    SCOPED_TRACE(name_of(type));
    const std::int64_t tokens = 45, heads = 4, groups = 2, d = 16;
    const std::int64_t width = (heads + 2 * groups) * d;
    Tensors t;
    AttentionForward op = make_attention(t, {"fused", heads, groups, d, {{25, 25}, {20, 20}}}, type);
    const TensorView qkv = t.random(type, {tokens, width}), dqkv = t.empty(type, {tokens, width});
    const auto slice = [&](const TensorView& matrix, std::int64_t begin, std::int64_t count) {
      return matrix.columns(begin * d, count * d).reshape({tokens, count, d});
    };
    op.q = slice(qkv, 0, heads), op.k = slice(qkv, heads, groups), op.v = slice(qkv, heads + groups, groups);
    expect_like_reference(backend(), op);
    run_reference(op);
    AttentionBackward backward = make_backward(t, op);
    backward.dq = slice(dqkv, 0, heads), backward.dk = slice(dqkv, heads, groups);
    backward.dv = slice(dqkv, heads + groups, groups);
    expect_like_reference(backend(), backward);
    t.expect_guards();
  }
}

TEST_P(BackendTest, AttentionOverBlocks) {
  if (!GetParam().blocks) GTEST_SKIP() << "keys in blocks are for the CPU alone";
  for (DType type : kTypes)
    for (const auto& c : attention_cases()) {
      if (c.dropout > 0 || c.behind >= 0) continue;
      for (const std::int64_t size : {1, 5, 16}) {
        SCOPED_TRACE(fmt::format("{} {} blocks of {}", name_of(type), c.name, size));
        Tensors t;
        const AttentionForward plain = make_attention(t, c, type);
        AttentionForward op = with_blocks(t, plain, size);
        run_reference(plain);
        op.o = t.empty(type, plain.o.shape);
        run_reference(op);
        EXPECT_EQ(load(op.o), load(plain.o));
        expect_like_reference(backend(), op);
        op.lse = {};
        expect_like_reference(backend(), op);
        t.expect_guards();
      }
    }
}

// Rows before the first visible key (fewer keys than queries) give zeros, not NaN.
TEST_P(BackendTest, QueriesThatSeeNothing) {
  for (DType type : kTypes) {
    SCOPED_TRACE(name_of(type));
    Tensors t;
    const AttentionForward op = make_attention(t, {"few keys", 2, 2, 16, {{6, 2}, {3, 3}}}, type);
    expect_like_reference(backend(), op);
    run_reference(op);
    expect_like_reference(backend(), make_backward(t, op));
  }
}

TEST_P(BackendTest, Rotary) {
  for (DType type : kTypes) {
    for (const auto& [heads, d, half] :
         {std::tuple{1, 2, 1}, std::tuple{3, 64, 32}, std::tuple{2, 20, 5}, std::tuple{5, 80, 16}}) {
      for (const std::int64_t gap : {0, 24}) {
        for (const bool inverse : {false, true}) {
          SCOPED_TRACE(
              fmt::format("{}: {} heads of {}, {} turned, gap {}", name_of(type), heads, d, 2 * half, gap));
          Tensors t;
          const std::int64_t positions = 50, tokens = 37;
          Values table;
          for (std::int64_t p = 0; p < positions; ++p)
            for (int part = 0; part < 2; ++part)
              for (int i = 0; i < half; ++i) {
                const double angle =
                    static_cast<double>(p) * std::pow(10000.0, -static_cast<double>(i) / half);
                table.push_back(part == 0 ? std::cos(angle) : std::sin(angle));
              }
          const Rotary op{t.random(type, {tokens, heads, d}, 1, gap), t.random_int32(tokens, positions),
                          t.of(DType::kF32, {positions, 2, half}, table), inverse};
          expect_like_reference(backend(), op);
          t.expect_guards();
        }
      }
    }
  }
}

}  // namespace stoa::ops::testing
