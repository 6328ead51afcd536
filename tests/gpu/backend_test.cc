// Every test of operations on a real GPU, against the reference: tensors go there and come back
// (OffloadBackend).
#include <chrono>
#include <cstring>

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

// What every machine is made with: no kernel was found wrong on this GPU.
TEST(GpuSelfCheck, Passes) {
  for (const char* options : {"", "plain-kernels"}) {
    const cuda::CudaMachine machine = cuda::make_cuda_machine(cuda::CudaOptions::parse(options));
    fmt::print("{}: self-check in {:.1f} ms\n", machine.description, 1e3 * machine.self_check_seconds);
    for (const std::string& warning : machine.warnings) ADD_FAILURE() << warning;
    EXPECT_EQ(machine.description.find("self-check failed"), std::string::npos) << machine.description;
  }
}

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

// Experts of real sizes with unequal numbers of rows, by both tiles. Operands are small whole numbers, so
// that sums are exact in any order: all bits must be the same, and some elements are computed here. Prints
// the speed of both.
namespace {

class LargeExperts {
 public:
  static constexpr std::int64_t kIn = 2048, kOut = 4096, kExperts = 8;
  static constexpr std::int64_t kCounts[kExperts] = {1500, 0, 129, 2049, 1, 640, 3000, 870};

  LargeExperts() {
    for (std::int64_t e = 0; e < kExperts; ++e)
      sorted_.insert(sorted_.end(), kCounts[e], static_cast<int>(e));
    rows_ = std::ssize(sorted_);
    x_ = numbers(rows_ * kIn), dy_ = numbers(rows_ * kOut), w_ = numbers(kExperts * kOut * kIn);
  }
  struct Results {
    std::vector<bf16> y, dx;
    std::vector<float> dw;
  };
  Results run(bool warpgroups) const {
    cuda::CudaOptions options;
    options.plain_kernels = !warpgroups;
    cuda::CudaMachine machine = cuda::make_cuda_machine(options);
    const std::unique_ptr<Stream> stream = machine.device->create_stream();
    std::vector<Buffer> memory;
    const auto tensor = [&](DType type, Shape shape, const void* from) {
      const TensorView spec(nullptr, type, shape);
      memory.push_back(machine.device->allocate(spec.bytes()));
      if (from)
        machine.device->copy_from_host(memory.back().data(), from, spec.bytes(), *stream);
      else
        machine.device->fill_zero(memory.back().data(), spec.bytes(), *stream);
      return TensorView(memory.back().data(), type, shape, DeviceKind::kCuda);
    };
    const TensorView x = tensor(DType::kBF16, {rows_, kIn}, x_.data()),
                     dy = tensor(DType::kBF16, {rows_, kOut}, dy_.data()),
                     w = tensor(DType::kBF16, {kExperts * kOut, kIn}, w_.data()),
                     sorted = tensor(DType::kI32, {rows_, 1}, sorted_.data()),
                     y = tensor(DType::kBF16, dy.shape, nullptr), dx = tensor(DType::kBF16, x.shape, nullptr),
                     dw = tensor(DType::kF32, w.shape, nullptr);
    const auto time = [&](const auto& op) {
      const Buffer workspace = machine.device->allocate(machine.backend->workspace_bytes(op));
      const auto many = [&](int count) {
        for (int i = 0; i < count; ++i) machine.backend->execute(op, Resources{*stream, workspace.data()});
        stream->synchronize();
      };
      many(3);
      const auto begin = std::chrono::steady_clock::now();
      many(20);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      fmt::print("{} by {}: {:.0f} TFLOP/s\n", op.kName, warpgroups ? "warpgroups" : "warps",
                 20 * 2.0 * static_cast<double>(rows_ * kIn * kOut) / seconds.count() * 1e-12);
    };
    time(GroupedLinearForward{x, w, sorted, y});
    time(GroupedLinearBackwardInput{dy, w, sorted, dx});
    time(GroupedLinearBackwardWeight{x, dy, sorted, dw, true});
    // The last writes what is compared.
    const GroupedLinearBackwardWeight last{x, dy, sorted, dw, false};
    const Buffer workspace = machine.device->allocate(machine.backend->workspace_bytes(last));
    machine.backend->execute(last, Resources{*stream, workspace.data()});
    Results out;
    const auto read = [&](auto& to, const TensorView& from) {
      to.resize(static_cast<std::size_t>(from.elements()));
      machine.device->copy_to_host(to.data(), from.data, from.bytes(), *stream);
    };
    read(out.y, y), read(out.dx, dx), read(out.dw, dw);
    stream->synchronize();
    return out;
  }
  // Elements in the corners of tiles of every expert.
  void expect_exact(const Results& results) const {
    std::int64_t first = 0;
    for (std::int64_t e = 0; e < kExperts; first += kCounts[e++]) {
      for (const std::int64_t i : {0, 63, 64, 127, 128, 1000, 2047})
        for (const std::int64_t j : {0, 7, 8, 63, 64, 255, 256, 2047}) {
          float y = 0, dx = 0, dw = 0;
          const std::int64_t row = first + i;
          for (std::int64_t p = 0; i < kCounts[e] && p < kIn; ++p)
            y += at(x_, row * kIn + p) * at(w_, (e * kOut + j) * kIn + p);
          for (std::int64_t p = 0; i < kCounts[e] && p < kOut; ++p)
            dx += at(dy_, row * kOut + p) * at(w_, (e * kOut + p) * kIn + j);
          for (std::int64_t p = first; p < first + kCounts[e]; ++p)
            dw += at(dy_, p * kOut + i) * at(x_, p * kIn + j);
          EXPECT_EQ(results.dw[(e * kOut + i) * kIn + j], dw) << "expert " << e << ", dw " << i << " " << j;
          if (i >= kCounts[e]) continue;
          EXPECT_EQ(results.y[row * kOut + j].bits, bf16(y).bits)
              << "expert " << e << ", y " << i << " " << j;
          EXPECT_EQ(results.dx[row * kIn + j].bits, bf16(dx).bits)
              << "expert " << e << ", dx " << i << " " << j;
        }
    }
  }

 private:
  static std::vector<bf16> numbers(std::int64_t count) {
    static constexpr int kNumbers[] = {-3, -2, -1, 0, 0, 1, 2, 3};
    std::vector<bf16> out(static_cast<std::size_t>(count));
    std::uint32_t state = 1;
    for (bf16& number : out) {
      state = state * 1664525u + 1013904223u;
      number = bf16(static_cast<float>(kNumbers[state >> 29]));
    }
    return out;
  }
  static float at(const std::vector<bf16>& of, std::int64_t i) {
    return static_cast<float>(of[static_cast<std::size_t>(i)]);
  }

  std::int64_t rows_ = 0;
  std::vector<std::int32_t> sorted_;
  std::vector<bf16> x_, dy_, w_;
};

template <class T>
std::int64_t first_difference(const std::vector<T>& a, const std::vector<T>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0) return static_cast<std::int64_t>(i);
  return -1;
}

}  // namespace

TEST(GpuExperts, TilesOfWarpsAndOfWarpgroups) {
  const LargeExperts experts;
  const LargeExperts::Results warps = experts.run(false), warpgroups = experts.run(true);
  experts.expect_exact(warps);
  experts.expect_exact(warpgroups);
  EXPECT_EQ(first_difference(warps.y, warpgroups.y), -1);
  EXPECT_EQ(first_difference(warps.dx, warpgroups.dx), -1);
  EXPECT_EQ(first_difference(warps.dw, warpgroups.dw), -1);
}

}  // namespace stoa::ops::testing
