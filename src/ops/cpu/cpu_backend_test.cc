// The suite of ops/backend_suite.h on the CPU backend, for every instruction set of this machine; the same
// bits for any number of workers; and what is special to its attention.
#include "ops/cpu/cpu_backend.h"

#include <cmath>
#include <limits>

#include "ops/attention_cases.h"
#include "ops/backend_suite.h"
#include "ops/cpu/emulation/gemm_emulated.h"

namespace stoa::ops::testing {
namespace {

using cpu::CpuBackend;
using cpu::InstructionSet;

// A backend with its own workers.
struct OwnedCpu {
  OwnedCpu(int workers, InstructionSet isa) : pool(workers), backend(pool, isa) {}
  OwnedCpu(int workers, InstructionSet isa, const cpu::MatrixKernels& products)
      : pool(workers), backend(pool, isa, products) {}
  WorkerPool pool;
  CpuBackend backend;
};

std::shared_ptr<Backend> make_cpu(int workers, InstructionSet isa) {
  auto owned = std::make_shared<OwnedCpu>(workers, isa);
  return {owned, &owned->backend};
}

// The best of this machine, with matrix products on tiles that are emulated.
std::shared_ptr<Backend> make_emulated_tiles() {
  const InstructionSet isa = cpu::best_instruction_set();
  auto owned = std::make_shared<OwnedCpu>(2, isa, cpu::with_emulated_tiles(isa));
  return {owned, &owned->backend};
}

std::vector<InstructionSet> instruction_sets() {
  // Asked once: in a virtual machine the processor's answer takes a millisecond, and every test program that
  // holds these tests lists them when it starts.
  const auto best = static_cast<int>(cpu::best_instruction_set());
  std::vector<InstructionSet> sets;
  for (int i = 0; i <= best; ++i) sets.push_back(static_cast<InstructionSet>(i));
  return sets;
}

std::vector<BackendCase> cases() {
  std::vector<BackendCase> out;
  for (InstructionSet isa : instruction_sets()) {
    std::string name(name_of(isa));
    std::replace(name.begin(), name.end(), '-', '_');
    out.push_back({name, [isa] { return make_cpu(2, isa); }});
  }
  out.push_back({"emulated_tiles", make_emulated_tiles});
  return out;
}

std::vector<std::byte> bytes_of(const TensorView& tensor) {
  std::vector<std::byte> out;
  const std::size_t row = static_cast<std::size_t>(tensor.shape.inner()) * size_of(tensor.dtype);
  for (std::int64_t r = 0; r < tensor.rows(); ++r) {
    const auto* at = static_cast<const std::byte*>(tensor.byte_offset(r * tensor.stride0));
    out.insert(out.end(), at, at + row);
  }
  return out;
}

// All written tensors of an op run by `workers`.
template <class Make>
std::vector<std::vector<std::byte>> results(int workers, Make&& make) {
  Tensors t(5);
  const auto op = make(t);
  run_on(*make_cpu(workers, cpu::best_instruction_set()), op);
  std::vector<std::vector<std::byte>> out;
  std::remove_const_t<decltype(op)>::visit(op, [&](const char*, const TensorView& tensor, Access access) {
    if (tensor && access != Access::kRead) out.push_back(bytes_of(tensor));
  });
  return out;
}

template <class Make>
void expect_same_for_any_workers(Make&& make) {
  const auto one = results(1, make);
  EXPECT_EQ(one, results(3, make));
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Cpu, BackendTest, ::testing::ValuesIn(cases()), BackendCaseName());

TEST(CpuBackendWorkers, BitsDoNotDependOnTheirNumber) {
  const auto dropout = Dropout{0.1F, philox_key(7, RandomPurpose::kHiddenDropout, "layer"), 77};
  expect_same_for_any_workers([&](Tensors& t) {
    NormForward forward;
    forward.x = t.random(DType::kF32, {300, 96});
    forward.gamma = t.random(DType::kF32, {96});
    forward.y = t.empty(DType::kBF16, {300, 96});
    forward.stats = t.empty(DType::kF32, {300, 2});
    run_reference(forward);
    NormBackward op;
    op.x = forward.x, op.stats = forward.stats, op.gamma = forward.gamma;
    op.dy = t.random(DType::kBF16, {300, 96});
    op.dx = t.empty(DType::kF32, {300, 96});
    op.dbranch = t.empty(DType::kBF16, {300, 96});
    op.dropout = dropout;
    op.dgamma = t.random(DType::kF32, {96});
    op.dbeta = t.random(DType::kF32, {96});
    return op;
  });
  expect_same_for_any_workers([&](Tensors& t) {
    EmbeddingBackward op;
    op.tokens = t.random_int32(500, 11);
    op.dropout = dropout;
    op.dy = t.random(DType::kBF16, {500, 300});
    op.dtable = t.random(DType::kF32, {11, 300});
    return op;
  });
  expect_same_for_any_workers([&](Tensors& t) {
    return SumSquares{t.random(DType::kF32, {200001}), t.random(DType::kF64, {4}), {}};
  });
  for (const AttentionCase& c : attention_cases()) {
    SCOPED_TRACE(c.name);
    expect_same_for_any_workers([&](Tensors& t) { return make_attention(t, c, DType::kBF16); });
    expect_same_for_any_workers([&](Tensors& t) {
      const AttentionForward forward = make_attention(t, c, DType::kBF16);
      run_reference(forward);
      return make_backward(t, forward);
    });
  }
}

// Blocks, tasks and their edges: lengths around multiples of 64 and 512, several tasks of queries.
TEST(CpuAttention, LongSegmentsLikeReference) {
  const std::vector<AttentionCase> cases = {
      {"around blocks", 1, 1, 16, {{63, 63}, {65, 65}, {128, 128}, {129, 129}}},
      {"several tasks", 1, 1, 16, {{700, 700}}},
      {"several tasks, window", 1, 1, 16, {{700, 700}}, true, 150},
      {"second part of a prompt", 1, 1, 32, {{100, 650}}},
      {"more queries than keys", 1, 1, 16, {{90, 20}}},
      {"grouped over blocks", 4, 2, 24, {{150, 150}, {70, 70}}},
      {"wide heads", 2, 1, 256, {{70, 70}}},
      {"dropout over blocks", 2, 2, 16, {{140, 140}}, true, 0, 0.2F},
  };
  for (InstructionSet isa : {InstructionSet::kPortable, cpu::best_instruction_set()}) {
    const auto backend = make_cpu(2, isa);
    for (DType type : {DType::kF32, DType::kBF16}) {
      for (const AttentionCase& c : cases) {
        SCOPED_TRACE(fmt::format("{} {} {}", name_of(isa), name_of(type), c.name));
        Tensors t;
        const AttentionForward forward = make_attention(t, c, type);
        expect_like_reference(*backend, forward);
        run_reference(forward);
        expect_like_reference(*backend, make_backward(t, forward),
                              {static_cast<double>(std::max<std::int64_t>(64, c.d))});  // sums of d terms
        t.expect_guards();
      }
    }
  }
}

// Spans of keys of a few texts are shared out among workers, and merged as one worker merges them.
TEST(CpuAttention, SpansOfKeysAreSharedOut) {
  const std::vector<AttentionCase> cases = {
      {"one text", 6, 2, 64, {{1, 700}}},
      {"a few queries", 6, 2, 64, {{3, 700}}},
      {"to the end of a span", 3, 1, 24, {{1, 512}}},
      {"one key in the last span", 3, 1, 24, {{4, 513}}},
      {"window within a span", 6, 2, 64, {{1, 900}}, true, 40},
      {"window over spans", 6, 2, 64, {{2, 900}}, true, 300},
      {"texts of several lengths", 4, 1, 48, {{1, 600}, {2, 257}, {1, 30}}},
      {"many heads of a key head", 24, 1, 64, {{1, 900}}},
      {"many heads of a key head, a few queries", 20, 1, 32, {{3, 700}, {2, 300}}, true, 280},
      {"many queries", 4, 2, 32, {{400, 600}}},
      {"many queries, heads of their own", 6, 6, 32, {{230, 300}}},
      {"many texts", 6, 2, 32, std::vector<SegmentCase>(36, {2, 70})},
      {"long texts", 6, 2, 32, {{1, 2600}, {1, 2400}, {4, 3000}}},
      {"one of many texts is long",
       6,
       2,
       32,
       {{1, 900}, {1, 20}, {1, 30}, {3, 40}, {1, 50}, {1, 60}, {2, 70}, {1, 80}}},
  };
  for (InstructionSet isa : {InstructionSet::kPortable, cpu::best_instruction_set()})
    for (DType type : {DType::kF32, DType::kBF16})
      for (const AttentionCase& c : cases) {
        SCOPED_TRACE(fmt::format("{} {} {}", name_of(isa), name_of(type), c.name));
        Tensors t;
        const AttentionForward op = with_blocks(t, make_attention(t, c, type), 16);
        expect_like_reference(*make_cpu(3, isa), op);
        run_on(*make_cpu(1, isa), op);
        const auto output = bytes_of(op.o), lse = bytes_of(op.lse);
        for (const int workers : {2, 3, 8}) {
          run_on(*make_cpu(workers, isa), op);
          EXPECT_EQ(bytes_of(op.o), output) << workers;
          EXPECT_EQ(bytes_of(op.lse), lse) << workers;
        }
        t.expect_guards();
      }
}

// An infinite value in a span of keys that a query does not see, beside queries that see it.
TEST(CpuAttention, InfinityInASpanThatIsNotSeen) {
  for (DType type : {DType::kF32, DType::kBF16}) {
    Tensors t;
    AttentionForward op = make_attention(t, {"across a span", 2, 1, 32, {{40, 282}}}, type);
    Values values = load(op.v);
    values[256 * 32] = std::numeric_limits<double>::infinity();
    store(values, op.v);
    op = with_blocks(t, op, 16);
    run_on(*make_cpu(1, cpu::best_instruction_set()), op);  // a task has 32 rows
    const Values out = load(op.o);
    EXPECT_FALSE(std::isfinite(out[14 * 64])) << "the first query that sees it";
    for (std::size_t i = 0; i < 14 * 64; ++i) ASSERT_TRUE(std::isfinite(out[i])) << name_of(type) << " " << i;
  }
}

// What one document says never reaches another, in either direction: not one bit.
TEST(CpuAttention, DocumentsDoNotLeak) {
  const AttentionCase c{"packed", 4, 2, 24, {{70, 70}, {45, 45}, {130, 130}}};
  const auto backend = make_cpu(2, cpu::best_instruction_set());
  Tensors t;
  const AttentionForward op = make_attention(t, c, DType::kBF16);
  run_on(*backend, op);
  const AttentionBackward back = make_backward(t, op);
  run_on(*backend, back);
  const auto others = [&](const TensorView& tensor) {
    auto first = bytes_of(tensor.slice(0, 70));
    const auto last = bytes_of(tensor.slice(115, 130));
    first.insert(first.end(), last.begin(), last.end());
    return first;
  };
  const auto outputs = [&] {
    return std::vector{others(op.o), others(op.lse), others(back.dq), others(back.dk), others(back.dv)};
  };
  const auto before = outputs();
  const auto own = bytes_of(op.o.slice(70, 45));
  Tensors other(99);
  for (const TensorView& tensor : {op.q, op.k, op.v, back.dout}) {
    const TensorView noise = other.random(DType::kBF16, {45, tensor.shape[1], tensor.shape[2]}, 30);
    store(load(noise), tensor.slice(70, 45));
  }
  run_on(*backend, op);
  run_on(*backend, back);
  EXPECT_EQ(before, outputs());
  EXPECT_NE(own, bytes_of(op.o.slice(70, 45)));
}

}  // namespace stoa::ops::testing
