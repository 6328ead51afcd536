// Which attention goes to a library, and in what form: strides, masks, and log-sums by head.
#include "ops/cuda/attention_library.h"

#include "ops/attention_cases.h"
#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/emulation/matmul.h"

namespace stoa::ops::testing {
namespace {

using cuda::AttentionPointers, cuda::DenseAttention;

// Takes everything that is dense, and computes it by the reference.
class FakeLibrary final : public cuda::AttentionLibrary {
 public:
  bool takes(const DenseAttention& problem) override { return problem.d % 8 == 0; }
  std::size_t workspace_bytes(const DenseAttention&) override { return 1000; }
  void run(const DenseAttention& p, const AttentionPointers& x, void*, void* workspace) override {
    ++runs;
    last = p;
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(workspace) % 256, 0u);
    Tensors t;
    std::vector<std::int32_t> begin,
        count(static_cast<std::size_t>(p.batch), static_cast<std::int32_t>(p.length));
    for (std::int64_t b = 0; b <= p.batch; ++b) begin.push_back(static_cast<std::int32_t>(b * p.length));
    AttentionForward f;
    f.segments.q_begin = t.int32(begin);
    begin.pop_back();
    f.segments.k_begin = t.int32(begin);
    f.segments.k_count = t.int32(count);
    f.segments.count = p.batch;
    f.segments.longest_q = f.segments.longest_k = p.length;
    f.options.causal = p.causal;
    f.options.window = p.window;
    f.options.scale = static_cast<double>(p.scale);
    const std::int64_t rows = p.batch * p.length;
    const auto view = [&](const void* data, std::int64_t heads, std::int64_t stride) {
      TensorView out(const_cast<void*>(data), p.type, {rows, heads, p.d});
      out.stride0 = stride;
      return out;
    };
    f.q = view(x.q, p.heads, p.q_stride), f.k = view(x.k, p.groups, p.k_stride),
    f.v = view(x.v, p.groups, p.v_stride);
    f.o = view(x.o, p.heads, p.o_stride);
    f.lse = t.empty(DType::kF32, {rows, p.heads});
    const auto by_head = [&](std::int64_t row, std::int64_t head) -> float& {
      return x.lse[(row / p.length * p.heads + head) * p.length + row % p.length];
    };
    if (!p.backward) {
      run_reference(f);
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t h = 0; h < p.heads; ++h) by_head(r, h) = f.lse.as<float>()[r * p.heads + h];
      return;
    }
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t h = 0; h < p.heads; ++h) f.lse.as<float>()[r * p.heads + h] = by_head(r, h);
    AttentionBackward b;
    b.options = f.options, b.segments = f.segments;
    b.q = f.q, b.k = f.k, b.v = f.v, b.o = f.o, b.lse = f.lse;
    b.dout = view(x.dout, p.heads, p.dout_stride);
    b.dq = view(x.dq, p.heads, p.dq_stride);
    b.dk = view(x.dk, p.groups, p.dk_stride), b.dv = view(x.dv, p.groups, p.dv_stride);
    run_reference(b);
  }

  int runs = 0;
  DenseAttention last;
};

struct Backends {
  std::shared_ptr<FakeLibrary> library = std::make_shared<FakeLibrary>();
  cuda::CudaBackend backend{std::make_shared<cuda::emulation::HostMatmul>(), library, DeviceKind::kHost};

  // How many of forward and backward went to the library; both are right in any case.
  int taken(const AttentionCase& c, DType type) {
    library->runs = 0;
    Tensors t;
    const AttentionForward op = make_attention(t, c, type);
    expect_like_reference(backend, op);
    run_reference(op);
    expect_like_reference(backend, make_backward(t, op));
    t.expect_guards();
    return library->runs;
  }
};

TEST(AttentionLibrary, TakesBatchesOfOneLength) {
  Backends s;
  for (DType type : {DType::kBF16, DType::kF16}) {
    EXPECT_EQ(s.taken({"one sequence", 2, 2, 16, {{33, 33}}}, type), 2);
    EXPECT_EQ(s.taken({"batch, grouped", 4, 2, 16, {{20, 20}, {20, 20}, {20, 20}}}, type), 2);
    EXPECT_EQ(s.library->last.batch, 3);
    EXPECT_EQ(s.library->last.length, 20);
    EXPECT_EQ(s.taken({"strided", 2, 2, 16, {{20, 20}, {20, 20}}, true, 0, 0, 48}, type), 2);
    EXPECT_EQ(s.library->last.q_stride, 2 * 16 + 48);
    EXPECT_EQ(s.taken({"window", 2, 2, 16, {{40, 40}}, true, 7}, type), 2);
    EXPECT_EQ(s.library->last.window, 7);
    EXPECT_EQ(s.taken({"a window of all", 2, 2, 16, {{40, 40}}, true, 40}, type), 2);
    EXPECT_EQ(s.library->last.window, 0);
    EXPECT_EQ(s.taken({"full", 2, 2, 16, {{40, 40}}, false}, type), 2);
    EXPECT_FALSE(s.library->last.causal);
  }
}

TEST(AttentionLibrary, LeavesTheRestToOurKernels) {
  Backends s;
  const DType type = DType::kBF16;
  EXPECT_EQ(s.taken({"packed", 2, 2, 16, {{20, 20}, {19, 19}}}, type), 0);
  EXPECT_EQ(s.taken({"cache", 2, 2, 16, {{3, 20}}}, type), 0);
  EXPECT_EQ(s.taken({"one token", 2, 2, 16, {{1, 1}}}, type), 0);
  EXPECT_EQ(s.taken({"dropout", 2, 2, 16, {{20, 20}}, true, 0, 0.2F}, type), 0);
  EXPECT_EQ(s.taken({"cap", 2, 2, 16, {{20, 20}}, true, 0, 0, 0, 0, 30.0}, type), 0);
  EXPECT_EQ(s.taken({"bias", 2, 2, 16, {{20, 20}}, false, 0, 0, 0, 0, 0, -3, 7}, type), 0);
  EXPECT_EQ(s.taken({"fp32", 2, 2, 16, {{20, 20}}}, DType::kF32), 0);
  EXPECT_EQ(s.taken({"head of a size that the library refuses", 2, 2, 12, {{20, 20}}}, type), 0);
}

}  // namespace
}  // namespace stoa::ops::testing
