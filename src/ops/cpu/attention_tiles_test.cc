// Attention on the tiles of AMX beside the reference: real instructions where the processor has them, trapped
// and emulated where it has AVX-512-BF16 alone.
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
