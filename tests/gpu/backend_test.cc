// Every test of operations on a real GPU, against the reference: tensors go there and come back
// (OffloadBackend).
#include "ops/attention_cases.h"
#include "ops/backend_suite.h"
#include "ops/check/offload_backend.h"
#include "ops/cuda/cuda_machine.h"
#include "ops/quantised_cases.h"

namespace stoa::ops::testing {
namespace {

std::shared_ptr<Backend> make_gpu(const char* options) {
  cuda::CudaMachine machine = cuda::make_cuda_machine(cuda::CudaOptions::parse(options));
  return std::make_shared<OffloadBackend>(std::move(machine.device), std::move(machine.backend));
}

BackendCase gpu(const char* name, const char* options) {
  return {
      .name = name, .make = [=] { return make_gpu(options); }, .rounds_bias = true, .short_fp8_sums = true};
}

AttentionCase dense(const char* name, std::int64_t heads, std::int64_t groups, std::int64_t d, int batch,
                    int length) {
  AttentionCase out{name, heads, groups, d, {}};
  for (int i = 0; i < batch; ++i) out.segments.push_back({length, length});
  return out;
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Gpu, BackendTest,
                         ::testing::Values(gpu("cuda", ""), gpu("own_attention", "own-attention"),
                                           gpu("deterministic", "deterministic")),
                         BackendCaseName());

// The forms of training, which the attention library takes.
TEST(GpuAttention, DenseBatches) {
  for (const char* options : {"", "deterministic"}) {
    const auto backend = make_gpu(options);
    for (DType type : {DType::kBF16, DType::kF16}) {
      for (AttentionCase c : {dense("gpt2", 4, 4, 64, 2, 256), dense("head 128", 2, 2, 128, 1, 384),
                              dense("grouped", 8, 2, 64, 2, 192), dense("odd length", 2, 2, 64, 2, 77),
                              dense("window", 2, 2, 64, 1, 256)}) {
        if (std::string_view(c.name) == "window") c.window = 40;
        SCOPED_TRACE(fmt::format("{} {} {}", options, name_of(type), c.name));
        Tensors t;
        const AttentionForward op = make_attention(t, c, type);
        expect_like_reference(*backend, op);
        run_reference(op);
        expect_like_reference(*backend, make_backward(t, op));
        t.expect_guards();
      }
    }
  }
}

// A pass of inference as of a model: the next tokens of two texts and a piece of a prompt; twice the same
// bits.
TEST(GpuAttention, TokensAndPromptsOverBlocks) {
  const auto backend = make_gpu("");
  for (DType cache : {DType::kBF16, DType::kU8}) {
    SCOPED_TRACE(name_of(cache));
    Tensors t;
    AttentionForward op = with_blocks(
        t, make_attention(t, {"", 32, 8, 128, {{1, 2900}, {1, 40}, {300, 700}}}, DType::kBF16), 16);
    op.k = kept_blocks(t, op.k, cache), op.v = kept_blocks(t, op.v, cache);
    expect_like_reference(*backend, op);
    AttentionForward again = op;
    again.o = t.empty(op.o.dtype, op.o.shape);
    run_on(*backend, op);
    run_on(*backend, again);
    EXPECT_EQ(std::memcmp(op.o.data, again.o.data, op.o.bytes()), 0);
    t.expect_guards();
  }
}

// Two runs give the same bits where that was asked for.
TEST(GpuAttention, DeterministicBackwardRepeats) {
  const auto backend = make_gpu("deterministic");
  Tensors t;
  const AttentionForward op = make_attention(t, dense("long", 8, 8, 64, 2, 512), DType::kBF16);
  run_on(*backend, op);
  const AttentionBackward first = make_backward(t, op);
  run_on(*backend, first);
  AttentionBackward second = first;
  second.dq = t.empty(op.q.dtype, op.q.shape), second.dk = t.empty(op.q.dtype, op.k.shape);
  second.dv = t.empty(op.q.dtype, op.v.shape);
  run_on(*backend, second);
  for (const auto& [a, b] :
       {std::pair{first.dq, second.dq}, std::pair{first.dk, second.dk}, std::pair{first.dv, second.dv}})
    EXPECT_EQ(std::memcmp(a.data, b.data, a.bytes()), 0);
}

// Products as large as those of models: other algorithms than the suite's small ones.
TEST(GpuLinear, LargeProducts) {
  const auto backend = make_gpu("");
  for (DType type : {DType::kBF16, DType::kF32}) {
    Tensors t;
    const LinearForward forward{t.random(type, {512, 768}), t.random(type, {1024, 768}, 0.1),
                                t.random(DType::kF32, {1024}), t.empty(type, {512, 1024})};
    expect_like_reference(*backend, forward, {64, type, 2});
    const TensorView dy = t.random(type, {512, 1024});
    expect_like_reference(*backend, LinearBackwardInput{dy, forward.w, t.empty(type, {512, 768}), false});
    expect_like_reference(*backend, LinearBackwardWeight{forward.x, dy, t.random(DType::kF32, {1024, 768}),
                                                         t.random(DType::kF32, {1024}), true});
  }
}

// Matrices as large as those of models, of several kinds, by both kernels: a token has the same bits alone,
// among few and among many.
TEST(GpuQuantised, LargeProducts) {
  const auto backend = make_gpu("");
  for (const BlockType type : {BlockType::kQ8_0, BlockType::kQ4_K, BlockType::kQ6_K, BlockType::kIQ4_NL}) {
    SCOPED_TRACE(quant::format_of(type).name);
    Tensors t;
    const quant::MatrixShape shape{2560, 2, {{{type, 4100}, {BlockType::kQ5_0, 40}}}};
    const TensorView x = t.random(DType::kBF16, {330, 2560}), w = quantised(t, shape),
                     y = t.empty(DType::kF32, {330, shape.rows()});
    run_on(*backend, QuantisedLinear{x, w, shape, {}, y});
    for (const std::int64_t count : {1, 8, 32, 200}) {
      const QuantisedLinear some{
          x.slice(330 - count, count), w, shape, {}, t.empty(DType::kF32, {count, shape.rows()})};
      if (count == 8)
        expect_like_reference(*backend, some, {64, DType::kF64, 2});
      else
        run_on(*backend, some);
      EXPECT_EQ(std::memcmp(some.y.data, y.slice(330 - count, count).data, some.y.bytes()), 0) << count;
    }
    t.expect_guards();
  }
}

// Layers of experts as large as those of small models, with rows of nobody; twice the same bits.
TEST(GpuExperts, LargeGroups) {
  const auto backend = make_gpu("");
  constexpr std::int64_t kTokens = 384, kChosen = 2, kExperts = 8, kIn = 384, kOut = 512;
  for (DType type : {DType::kBF16, DType::kF16, DType::kF32}) {
    SCOPED_TRACE(name_of(type));
    Tensors t;
    const auto ids = [&] { return t.empty(DType::kI32, {kTokens, kChosen}); };
    const TensorView experts = t.random_int32(kTokens * kChosen, kExperts).reshape({kTokens, kChosen}),
                     order = ids(), place = ids(), sorted = ids();
    for (std::int64_t a = 0; a < experts.elements(); a += 7) experts.as<std::int32_t>()[a] = -1;
    expect_like_reference(*backend, GroupByExpert{kExperts, experts, ids(), ids(), ids()});
    run_reference(GroupByExpert{kExperts, experts, order, place, sorted});
    const std::int64_t rows = kTokens * kChosen;
    const TensorView x = t.random(type, {rows, kIn}), dy = t.random(type, {rows, kOut}),
                     w = t.random(type, {kExperts * kOut, kIn}, 0.1);
    const GroupedLinearForward forward{x, w, sorted, t.empty(type, {rows, kOut})};
    expect_like_reference(*backend, forward);
    expect_like_reference(*backend, GroupedLinearBackwardInput{dy, w, sorted, t.empty(type, {rows, kIn})});
    expect_like_reference(*backend, GroupedLinearBackwardWeight{
                                        x, dy, sorted, t.random(DType::kF32, {kExperts * kOut, kIn}), true});
    GroupedLinearForward again = forward;
    again.y = t.empty(type, {rows, kOut});
    run_on(*backend, forward);
    run_on(*backend, again);
    EXPECT_EQ(std::memcmp(forward.y.data, again.y.data, again.y.bytes()), 0);
    t.expect_guards();
  }
}

}  // namespace stoa::ops::testing
