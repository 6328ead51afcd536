// Attention on the tiles of AMX beside the reference: real instructions where the processor has them, trapped
// and emulated where it has AVX-512-BF16 alone.
#include <algorithm>
#include <limits>

#include "ops/attention_cases.h"
#include "ops/backend_suite.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/tile_trap.h"

#if defined(__x86_64__) && defined(__linux__)

namespace stoa::ops::testing {
namespace {

using cpu::InstructionSet;

class AttentionTiles : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cpu::best_instruction_set() < InstructionSet::kAvx512Bf16) GTEST_SKIP() << "needs AVX-512-BF16";
    trap_.emplace();
    backend_.emplace(pool_, InstructionSet::kAmxBf16, cpu::matrix_kernels(InstructionSet::kAmxBf16));
  }
  std::optional<cpu::TileTrap> trap_;
  WorkerPool pool_{1};
  std::optional<cpu::CpuBackend> backend_;
};

// Blocks that end anywhere: odd numbers of keys, of vectors of queries, of rows of tiles.
TEST_F(AttentionTiles, AllCasesWithHeadsOfWholeTiles) {
  for (const std::int64_t d : {32, 96})
    for (AttentionCase c : attention_cases()) {
      c.d = d;
      SCOPED_TRACE(fmt::format("{} with heads of {}", c.name, d));
      Tensors t;
      const AttentionForward forward = make_attention(t, c, DType::kBF16);
      expect_like_reference(*backend_, forward);
      run_reference(forward);
      expect_like_reference(*backend_, make_backward(t, forward));
      t.expect_guards();
    }
  EXPECT_FALSE(cpu::TileTrap::state().configured()) << "tiles are released";
}

// Blocks of keys that are whole tiles, and others, with heads of whole tiles.
TEST_F(AttentionTiles, AllCasesOverBlocks) {
  for (const std::int64_t d : {32, 96})
    for (AttentionCase c : attention_cases()) {
      if (c.dropout > 0 || c.behind >= 0) continue;
      c.d = d;
      for (const std::int64_t size : {5, 16, 32}) {
        SCOPED_TRACE(fmt::format("{} with heads of {}, blocks of {}", c.name, d, size));
        Tensors t;
        expect_like_reference(*backend_, with_blocks(t, make_attention(t, c, DType::kBF16), size));
        t.expect_guards();
      }
    }
  EXPECT_FALSE(cpu::TileTrap::state().configured()) << "tiles are released";
}

// Rows of keys that nothing was written to hold anything.
TEST_F(AttentionTiles, RowsAfterTheLastKeyAreNotUsed) {
  Tensors t;
  const AttentionForward op =
      with_blocks(t, make_attention(t, {"few keys", 6, 2, 64, {{3, 21}}}, DType::kBF16), 16);
  run_on(*backend_, op);
  const std::vector<double> expected = load(op.o);
  const auto* blocks = op.segments.k_begin.as<std::int32_t>();
  for (const TensorView& rows : {op.k, op.v}) {
    const CacheShape cache(rows);
    for (std::int64_t h = 0; h < cache.heads; ++h) {
      auto* head = rows.as<bf16>() + (blocks[1] * cache.heads + h) * cache.rows * cache.width;
      std::fill(head + 5 * cache.width, head + cache.rows * cache.width,
                static_cast<bf16>(std::numeric_limits<float>::quiet_NaN()));
    }
  }
  run_on(*backend_, op);
  EXPECT_EQ(load(op.o), expected);
}

// A query's output has the same bits whatever queries are computed with it, and wherever its keys are.
TEST_F(AttentionTiles, QueriesOverBlocksDoNotDependOnEachOther) {
  for (const std::int64_t window : {0, 50}) {
    const std::int32_t queries = 70, keys = 150;
    Tensors t;
    const AttentionForward together = with_blocks(
        t, make_attention(t, {"all", 6, 2, 64, {{queries, keys}}, true, window}, DType::kBF16), 16);
    run_on(*backend_, together);
    for (const std::int32_t count : {1, 3, 20}) {
      SCOPED_TRACE(fmt::format("{} queries, window {}", count, window));
      for (std::int32_t begin = 0; begin < queries; begin += count) {
        const std::int32_t end = std::min(queries, begin + count);
        AttentionForward op = together;
        op.q = together.q.slice(begin, end - begin);
        op.o = t.empty(DType::kBF16, op.q.shape);
        op.lse = {};
        op.segments.q_begin = t.int32({0, end - begin});
        op.segments.k_count = t.int32({keys - queries + end});
        op.segments.longest_q = end - begin;
        op.segments.longest_k = keys - queries + end;
        run_on(*backend_, op);
        ASSERT_EQ(load(op.o), load(together.o.slice(begin, end - begin))) << begin;
      }
    }
  }
}

// What a query's only key gets from the softmax is exactly nothing: out * dout and dout * v cancel.
TEST_F(AttentionTiles, OneKeyGivesNoGradientToScores) {
  Tensors t;
  const AttentionForward forward =
      make_attention(t, {"window of one", 2, 2, 64, {{70, 70}}, true, 1}, DType::kBF16);
  run_on(*backend_, forward);
  const AttentionBackward backward = make_backward(t, forward);
  run_on(*backend_, backward);
  for (const TensorView& gradient : {backward.dq, backward.dk})
    for (std::int64_t i = 0; i < gradient.elements(); ++i)
      ASSERT_EQ(static_cast<float>(gradient.as<bf16>()[i]), 0.0f) << i;
}

}  // namespace
}  // namespace stoa::ops::testing

#endif
