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

namespace {

// The same segments where the longest text could have this many keys.
AttentionSegments in_longer_tables(Tensors& t, AttentionSegments s, std::int64_t keys) {
  const TensorView blocks = s.k_begin;
  s.longest_k = keys;
  s.k_begin = t.empty(DType::kI32, {s.count, keys});
  std::memset(s.k_begin.data, 0, s.k_begin.bytes());
  for (std::int64_t i = 0; i < s.count; ++i)
    std::memcpy(s.k_begin.slice(i, 1).data, blocks.slice(i, 1).data, blocks.slice(i, 1).bytes());
  return s;
}

}  // namespace

// More keys than are summed at once (CPU and GPUs: 256), of one query and of many.
TEST_P(BackendTest, AttentionOverBlocksOfLongTexts) {
  const std::vector<SegmentCase> texts{{1, 600}, {19, 300}, {0, 40}, {3, 256}, {16, 257}};
  std::vector<AttentionCase> cases{
      {"grouped", 8, 2, 64, texts},           {"head 128", 4, 1, 128, texts},
      {"window", 2, 2, 16, texts, true, 300}, {"all keys", 2, 1, 80, texts, false},
      {"head 250", 2, 1, 250, texts},
  };
  cases.push_back({"bias and cap", 4, 2, 20, texts, true, 0, 0, 0, 0, 2.0, -400, 300});
  for (DType type : kTypes)
    for (const auto& c : cases) {
      SCOPED_TRACE(fmt::format("{} {}", name_of(type), c.name));
      Tensors t;
      AttentionForward op = with_blocks(t, make_attention(t, c, type), 16);
      expect_like_reference(backend(), op);
      op.lse = {};
      expect_like_reference(backend(), op);
      if (&c == &cases.front()) {  // less room for parts of sums than there are queries
        op.segments = in_longer_tables(t, op.segments, 1 << 20);
        expect_like_reference(backend(), op);
      }
      t.expect_guards();
    }
}

// Latent attention: one wide head of keys, which are the values too.
TEST_P(BackendTest, AttentionToLatentsInBlocks) {
  for (DType type : kTypes)
    for (const DType cache : {type, DType::kU8}) {
      SCOPED_TRACE(fmt::format("{} in {}", name_of(type), name_of(cache)));
      Tensors t;
      AttentionForward op =
          with_blocks(t, make_attention(t, {"latents", 8, 1, 576, {{1, 260}, {18, 20}}}, type), 16);
      op.k = kept_blocks(t, op.k, cache), op.v = op.k;
      expect_like_reference(backend(), op);
      t.expect_guards();
    }
}

namespace {

// Queries [begin, begin + count) of the only segment, with the keys that the last of them sees.
AttentionForward piece_of(Tensors& t, const AttentionForward& op, std::int32_t begin, std::int32_t count) {
  AttentionForward out = op;
  const auto queries = static_cast<std::int32_t>(op.q.rows());
  const std::int32_t keys = op.segments.k_count.as<std::int32_t>()[0] - queries + begin + count;
  out.q = op.q.slice(begin, count);
  out.o = t.empty(op.o.dtype, out.q.shape);
  out.lse = {};
  out.segments.q_begin = t.int32({0, count}), out.segments.k_count = t.int32({keys});
  out.segments.longest_q = count, out.segments.longest_k = keys;
  return out;
}

}  // namespace

// Bits, not only numbers: whatever else is computed with it, and however a text is cut.
TEST_P(BackendTest, OutputsOverBlocksDependOnTheTextAlone) {
  std::vector<AttentionCase> cases{{"grouped", 8, 2, 64, {{40, 550}}},
                                   {"head 128", 4, 1, 128, {{40, 550}}},
                                   {"head 192, window", 2, 2, 192, {{30, 400}}, true, 270},
                                   {"many heads of a key head", 12, 1, 32, {{40, 420}}},
                                   {"few keys", 4, 4, 32, {{33, 33}}}};
  cases.push_back({"bias and cap", 4, 2, 20, {{35, 560}}, true, 0, 0, 0, 0, 2.0, -400, 300});
  for (DType type : kTypes)
    for (const DType cache : {type, DType::kU8})
      for (const auto& c : cases) {
        SCOPED_TRACE(fmt::format("{} in {}: {}", name_of(type), name_of(cache), c.name));
        Tensors t;
        AttentionForward op = with_blocks(t, make_attention(t, c, type), 16);
        op.k = kept_blocks(t, op.k, cache), op.v = kept_blocks(t, op.v, cache);
        run_on(backend(), op);
        const Values whole = load(op.o);
        const auto row = static_cast<std::size_t>(op.o.shape.inner());
        const std::vector<std::int32_t> counts{1, 3, 16, 5, 1, 17};
        for (std::int32_t begin = 0, i = 0; begin < op.q.rows(); ++i) {
          const std::int32_t count = std::min(counts[static_cast<std::size_t>(i) % counts.size()],
                                              static_cast<std::int32_t>(op.q.rows()) - begin);
          AttentionForward piece = piece_of(t, op, begin, count);
          const auto expect_same = [&](const char* how) {
            run_on(backend(), piece);
            EXPECT_EQ(load(piece.o),
                      Values(whole.begin() + static_cast<std::ptrdiff_t>(row) * begin,
                             whole.begin() + static_cast<std::ptrdiff_t>(row) * (begin + count)))
                << how << ": queries [" << begin << ", " << begin + count << ")";
          };
          expect_same("alone");
          if (i == 0) {
            // As if another text of the pass were longer than memory for parts of sums allows.
            piece.segments = in_longer_tables(t, piece.segments, 1 << 21);
            expect_same("beside a long text");
          }
          begin += count;
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
