// Matrix products of every instruction set that this machine has, against a plain fp64 loop. Those on tiles
// run everywhere: on emulated tiles, and (with AVX-512-BF16) with each tile instruction trapped.
#include "ops/cpu/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "ops/cpu/emulation/gemm_emulated.h"
#include "ops/cpu/gemm_kernels.h"
#include "ops/cpu/gemm_plan.h"
#include "ops/cpu/linear.h"
#include "ops/cpu/self_check.h"
#include "ops/cpu/tile_trap.h"

namespace stoa::ops::cpu {
namespace {

std::vector<InstructionSet> sets_of_this_machine() {
  std::vector<InstructionSet> sets;
  for (auto isa : {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512,
                   InstructionSet::kAvx512Bf16, InstructionSet::kAmxBf16})
    if (isa <= best_instruction_set()) sets.push_back(isa);
  return sets;
}

struct KernelSet {
  std::string name;
  InstructionSet isa;
  MatrixKernels kernels;
  bool trap = false;       // the tile instructions may raise SIGILL
  bool only_bf16 = false;  // the other products are those of another set
};

std::vector<KernelSet> kernel_sets() {
  std::vector<KernelSet> sets;
  for (auto isa : sets_of_this_machine()) {
    std::string name(name_of(isa));
    std::erase(name, '-');
    sets.push_back({name, isa, matrix_kernels(isa)});
    sets.push_back({name + "_rows_apart", isa, matrix_kernels(isa, true)});
    if (isa == InstructionSet::kPortable || isa == InstructionSet::kAvx512Bf16) {
      sets.push_back({name + "_emulated_tiles", isa, with_emulated_tiles(isa), false, true});
      sets.push_back({name + "_emulated_tiles_rows_apart", isa, with_emulated_tiles(isa, true), false, true});
    }
  }
#if defined(__x86_64__) && defined(__linux__)
  if (best_instruction_set() == InstructionSet::kAvx512Bf16)
    sets.push_back(
        {"trapped_tiles", InstructionSet::kAvx512Bf16, matrix_kernels(InstructionSet::kAmxBf16), true, true});
#endif
  return sets;
}

// A matrix in a wider one, so that rows are strided and writes next to it are seen.
struct Matrix {
  static constexpr std::int64_t kMargin = 3;
  DType dtype;
  std::int64_t rows, columns, stride;
  std::vector<std::byte> memory;

  Matrix(DType type, std::int64_t r, std::int64_t c, bool strided)
      : dtype(type),
        rows(r),
        columns(c),
        stride(strided ? c + kMargin : c),
        memory(static_cast<std::size_t>(r * stride + 1) * size_of(type), std::byte{0x7b}) {}

  TensorView view() {
    TensorView v(memory.data(), dtype, {rows, columns});
    v.stride0 = stride;
    return v;
  }
  double get(std::int64_t i, std::int64_t j) const {
    return dispatch_float(dtype, [&]<class T>() {
      T x;
      std::memcpy(&x, memory.data() + static_cast<std::size_t>(i * stride + j) * sizeof(T), sizeof(T));
      if constexpr (std::is_floating_point_v<T>)
        return static_cast<double>(x);
      else
        return static_cast<double>(static_cast<float>(x));
    });
  }
  void set(std::int64_t i, std::int64_t j, double value) {
    dispatch_float(dtype, [&]<class T>() {
      const T x = static_cast<T>(static_cast<float>(value));
      std::memcpy(memory.data() + static_cast<std::size_t>(i * stride + j) * sizeof(T), &x, sizeof(T));
    });
  }
  void fill(std::mt19937& random) {
    std::uniform_real_distribution<double> values(-1.0, 1.0);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) set(i, j, values(random));
  }
  bool margins_untouched() const {
    if (stride == columns) return true;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::size_t b = 0; b < kMargin * size_of(dtype); ++b)
        if (memory[static_cast<std::size_t>(i * stride + columns) * size_of(dtype) + b] != std::byte{0x7b})
          return false;
    return true;
  }
};

double unit_roundoff(DType type) {
  return type == DType::kBF16 ? 0x1p-8 : type == DType::kF16 ? 0x1p-11 : 0x1p-24;
}

void run_in(const Gemm& g, const MatrixKernels& kernels, WorkerPool& pool) {
  // One byte more than promised, to see writes past the end.
  const std::size_t bytes = workspace_bytes(g, kernels, pool.size());
  std::vector<std::byte> memory(bytes + 64 + 64,
                                std::byte{0xff});  // NaN wherever it is read before it is written
  void* aligned = memory.data();
  std::size_t space = memory.size();
  std::align(64, bytes + 1, aligned, space);
  static_cast<std::byte*>(aligned)[bytes] = std::byte{0x5a};
  run(g, kernels, pool, aligned);
  EXPECT_EQ(static_cast<std::byte*>(aligned)[bytes], std::byte{0x5a}) << "wrote beyond the workspace";
}

struct Pools {
  WorkerPool one{1}, three{3};
};

struct Case {
  std::int64_t m, n, r;
  DType type, out_type;
  bool a_transposed, b_transposed, bias, accumulate, strided;
  std::int64_t r2 = 0;  // reduction of a second product
};

void check_case(const Case& c, const KernelSet& set, std::mt19937& random, Pools& pools) {
  if (set.only_bf16 && c.type != DType::kBF16) return;
  SCOPED_TRACE(fmt::format("{} m={} n={} r={} {}->{} ta={} tb={} bias={} accumulate={} strided={} r2={}",
                           set.name, c.m, c.n, c.r, name_of(c.type), name_of(c.out_type), c.a_transposed,
                           c.b_transposed, c.bias, c.accumulate, c.strided, c.r2));
  Matrix a(c.type, c.a_transposed ? c.r : c.m, c.a_transposed ? c.m : c.r, c.strided);
  Matrix b(c.type, c.b_transposed ? c.r : c.n, c.b_transposed ? c.n : c.r, c.strided);
  Matrix a2(c.type, c.a_transposed ? c.r2 : c.m, c.a_transposed ? c.m : c.r2, c.strided);
  Matrix b2(c.type, c.b_transposed ? c.r2 : c.n, c.b_transposed ? c.n : c.r2, c.strided);
  Matrix out(c.out_type, c.m, c.n, c.strided), bias(DType::kF32, 1, c.n, false);
  a.fill(random);
  b.fill(random);
  a2.fill(random);
  b2.fill(random);
  bias.fill(random);
  if (c.accumulate) out.fill(random);
  Matrix again = out, before = out;
  Gemm g{.a = {a.view(), c.a_transposed},
         .b = {b.view(), c.b_transposed},
         .bias = c.bias ? bias.view().reshape({c.n}) : TensorView{},
         .out = out.view(),
         .accumulate = c.accumulate};
  if (c.r2 > 0) g.a2 = {a2.view(), c.a_transposed}, g.b2 = {b2.view(), c.b_transposed};
  run_in(g, set.kernels, pools.one);
  g.out = again.view();
  run_in(g, set.kernels, pools.three);
  ASSERT_EQ(out.memory, again.memory) << "the result depends on the number of workers";
  ASSERT_TRUE(out.margins_untouched());
  const std::int64_t reduction = c.r + c.r2;
  std::vector<double> ad(c.m * reduction), bd(reduction * c.n);  // [m, reduction] and [reduction, n]
  const auto read = [&](const Matrix& first, const Matrix& second, bool transposed, std::int64_t i,
                        std::int64_t k) {
    const Matrix& from = k < c.r ? first : second;
    const std::int64_t at = k < c.r ? k : k - c.r;
    return transposed ? from.get(at, i) : from.get(i, at);
  };
  for (std::int64_t i = 0; i < c.m; ++i)
    for (std::int64_t k = 0; k < reduction; ++k) ad[i * reduction + k] = read(a, a2, c.a_transposed, i, k);
  for (std::int64_t j = 0; j < c.n; ++j)
    for (std::int64_t k = 0; k < reduction; ++k) bd[k * c.n + j] = read(b, b2, c.b_transposed, j, k);
  std::vector<double> sums(c.n), sizes(c.n);
  for (std::int64_t i = 0; i < c.m; ++i) {
    std::fill(sums.begin(), sums.end(), 0);
    std::fill(sizes.begin(), sizes.end(), 0);
    for (std::int64_t k = 0; k < reduction; ++k) {
      const double x = ad[i * reduction + k], *row = bd.data() + k * c.n;
      for (std::int64_t j = 0; j < c.n; ++j) sums[j] += x * row[j], sizes[j] += std::abs(x * row[j]);
    }
    for (std::int64_t j = 0; j < c.n; ++j) {
      double sum = sums[j], size = sizes[j];
      if (c.bias) sum += bias.get(0, j), size += std::abs(bias.get(0, j));
      if (c.accumulate) sum += before.get(i, j), size += std::abs(before.get(i, j));
      const double bound = size * 0x1p-24 * (2 + static_cast<double>(reduction) / 4) +
                           (std::abs(sum) + 1e-6) * unit_roundoff(c.out_type) * 1.01;
      ASSERT_NEAR(out.get(i, j), sum, bound) << "at " << i << "," << j;
    }
  }
}

constexpr std::int64_t kSizes[] = {1, 2, 3, 5, 17, 31, 64, 100, 257};
constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

class GemmTest : public ::testing::TestWithParam<KernelSet> {
#if defined(__x86_64__) && defined(__linux__)
  void SetUp() override {
    if (GetParam().trap) trap_.emplace();
  }
  std::optional<TileTrap> trap_;
#endif
};

TEST_P(GemmTest, OddShapes) {
  Pools pools;
  std::mt19937 random(7);
  int k = 0;
  for (auto m : kSizes)
    for (auto n : kSizes)
      for (auto r : kSizes) {
        ++k;
        if (GetParam().only_bf16 && k % 4 != 0) continue;  // slow
        // Each shape meets one combination of the other properties; all combinations occur.
        const int v = (k * 37) % 96;
        const DType type = GetParam().only_bf16 ? DType::kBF16 : kTypes[v % 3];
        check_case({m, n, r, type, v / 3 % 2 ? DType::kF32 : type, v / 6 % 2 == 1, v / 12 % 2 == 1,
                    v / 24 % 2 == 1, v / 48 % 2 == 1, k % 5 != 0},
                   GetParam(), random, pools);
        if (HasFatalFailure()) return;
      }
}

TEST_P(GemmTest, EveryCombination) {
  Pools pools;
  std::mt19937 random(8);
  for (auto m : {std::int64_t{5}, std::int64_t{37}, std::int64_t{137}})
    for (int v = 0; v < 192; ++v) {
      const DType type = kTypes[v % 3];
      check_case({m, 53, 39, type, v / 3 % 2 ? DType::kF32 : type, v / 6 % 2 == 1, v / 12 % 2 == 1,
                  v / 24 % 2 == 1, v / 48 % 2 == 1, v / 96 % 2 == 1},
                 GetParam(), random, pools);
      if (HasFatalFailure()) return;
    }
}

// Reductions longer than one slice, and long enough for several blocks.
TEST_P(GemmTest, LongReductions) {
  Pools pools;
  std::mt19937 random(9);
  for (auto r : {std::int64_t{513}, std::int64_t{4097}, std::int64_t{9001}})
    for (auto m : {std::int64_t{3}, std::int64_t{20}, std::int64_t{150}})
      for (auto type : kTypes) {
        check_case({m, 29, r, type, type, false, r % 2 == 0, true, true, true}, GetParam(), random, pools);
        check_case({m, 29, r, type, DType::kF32, true, true, false, true, false}, GetParam(), random, pools);
        if (HasFatalFailure()) return;
      }
}

// Of a few rows and of many; first reductions of one slice and of several, short of a block and beyond.
TEST_P(GemmTest, SecondProduct) {
  Pools pools;
  std::mt19937 random(12);
  int k = 0;
  for (auto m : {std::int64_t{1}, std::int64_t{7}, std::int64_t{70}, std::int64_t{150}})
    for (auto r :
         {std::int64_t{0}, std::int64_t{39}, std::int64_t{390}, std::int64_t{1537}, std::int64_t{4097}})
      for (auto r2 : {std::int64_t{1}, std::int64_t{16}, std::int64_t{51}}) {
        ++k;
        const DType type = GetParam().only_bf16 ? DType::kBF16 : kTypes[k % 3];
        check_case({m, 77, r, type, k % 2 ? DType::kF32 : type, k % 5 == 0, k % 4 < 2, k % 7 < 3, k % 8 < 4,
                    k % 3 != 0, r2},
                   GetParam(), random, pools);
        if (HasFatalFailure()) return;
      }
}

TEST_P(GemmTest, EmptyReductionGivesBias) {
  Pools pools;
  std::mt19937 random(10);
  check_case({3, 5, 0, DType::kF32, DType::kF32, false, true, true, false, false}, GetParam(), random, pools);
  check_case({33, 5, 0, DType::kBF16, DType::kBF16, false, true, true, true, false}, GetParam(), random,
             pools);
}

// What is declared for rows that fall to experts in any way is enough for every number of them, and not much
// more.
TEST_P(GemmTest, WorkspaceOfAnyNumberOfRows) {
  alignas(64) std::byte nowhere[64];  // of products that are not run
  const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
    return TensorView(nowhere, DType::kBF16, {rows, columns});
  };
  const MatrixKernels& kernels = GetParam().kernels;
  for (const int workers : {1, 2, 7})
    for (const auto& [n, r] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {96, 64}, {1408, 512}, {700, 9000}, {33, 40}, {700, 20}, {16, 512}})
      for (const std::int64_t rows : {1, 100, 3000, 6000}) {
        SCOPED_TRACE(fmt::format("{} workers, {} rows, {} x {}", workers, rows, n, r));
        const auto forward = [&](std::int64_t m) {
          return Gemm{{matrix(m, r), false}, {matrix(n, r), false}, {}, matrix(m, n), false};
        };
        const auto weight = [&](std::int64_t m) {
          return Gemm{{matrix(m, n), true}, {matrix(m, r), true}, {}, matrix(n, r), true};
        };
        std::size_t most_rows = 0, most_reduction = 0;
        for (std::int64_t m = 1; m <= rows; ++m) {
          most_rows = std::max(most_rows, workspace_bytes(forward(m), kernels, workers));
          most_reduction = std::max(most_reduction, workspace_bytes(weight(m), kernels, workers));
        }
        const std::size_t any_rows = workspace_bytes_of_any_rows(forward(rows), kernels, workers),
                          any_reduction = workspace_bytes_of_any_reduction(weight(rows), kernels, workers);
        EXPECT_GE(any_rows, most_rows);
        EXPECT_LE(any_rows, most_rows + most_rows / 2);
        EXPECT_GE(any_reduction, most_reduction);
        if (rows >= 3000 && r > 20) {  // of few columns the bound is wide
          EXPECT_LE(any_reduction, 2 * most_reduction + 4096);
        }
      }
}

TEST_P(GemmTest, ColumnSums) {
  Pools pools;
  std::mt19937 random(11);
  for (auto type : kTypes)
    for (auto rows : {std::int64_t{1}, std::int64_t{70}, std::int64_t{1000}})
      for (auto columns : {std::int64_t{1}, std::int64_t{130}}) {
        Matrix source(type, rows, columns, true), out(DType::kF32, 1, columns, false), once = out;
        source.fill(random);
        column_sums(source.view(), once.view().reshape({columns}), false, GetParam().isa, pools.three);
        out = once;
        column_sums(source.view(), out.view().reshape({columns}), true, GetParam().isa, pools.three);
        for (std::int64_t j = 0; j < columns; ++j) {
          double sum = 0;
          for (std::int64_t i = 0; i < rows; ++i) sum += source.get(i, j);
          ASSERT_NEAR(once.get(0, j), sum, 1e-7 * static_cast<double>(rows) + 1e-6);
          ASSERT_NEAR(out.get(0, j), 2 * sum, 3e-7 * static_cast<double>(rows) + 1e-6);
        }
      }
}

INSTANTIATE_TEST_SUITE_P(Isa, GemmTest, ::testing::ValuesIn(kernel_sets()),
                         [](const auto& set) { return set.param.name; });

// Products with few columns have the bits that these columns have among many.
TEST_P(GemmTest, FewColumnsHaveTheBitsOfMany) {
  const KernelSet& set = GetParam();
  Pools pools;
  std::mt19937 random(17);
  const auto same = [](const Matrix& few, const Matrix& many) {
    for (std::int64_t i = 0; i < few.rows; ++i)
      for (std::int64_t j = 0; j < few.columns; ++j)
        if (few.get(i, j) != many.get(i, j)) return fmt::format("differs at {}, {}", i, j);
    return std::string();
  };
  for (const auto& [long_side, r] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{129, 7}, {301, 130}, {150, 3100}})
    for (const std::int64_t few : {1, 16, 31, 48, 64}) {
      if (set.only_bf16 && r > 1000 && few != 48) continue;  // slow
      SCOPED_TRACE(fmt::format("{} x {}, reduction {}", long_side, few, r));
      for (const DType out : {DType::kBF16, DType::kF32}) {
        Matrix x(DType::kBF16, long_side, r, true), w(DType::kBF16, 70, r, true),
            across(DType::kBF16, r, 70, true);
        x.fill(random);
        w.fill(random);
        across.fill(random);
        for (const bool turned : {false, true}) {
          Matrix narrow(out, long_side, few, true), wide(out, long_side, 70, true);
          TensorView some = turned ? across.view().columns(0, few) : w.view().slice(0, few);
          run_in({{x.view(), false}, {some, turned}, {}, narrow.view(), false}, set.kernels, pools.three);
          run_in({{x.view(), false}, {turned ? across.view() : w.view(), turned}, {}, wide.view(), false},
                 set.kernels, pools.one);
          EXPECT_EQ(same(narrow, wide), "") << "turned: " << turned;
          EXPECT_TRUE(narrow.margins_untouched());
        }
      }
      Matrix dy(DType::kBF16, r, long_side, true), u(DType::kBF16, r, 70, true);
      dy.fill(random);
      u.fill(random);
      for (const bool accumulate : {false, true}) {
        Matrix narrow(DType::kF32, long_side, few, true), wide(DType::kF32, long_side, 70, true);
        narrow.fill(random);
        for (std::int64_t i = 0; i < long_side; ++i)
          for (std::int64_t j = 0; j < few; ++j) wide.set(i, j, narrow.get(i, j));
        run_in({{dy.view(), true}, {u.view().columns(0, few), true}, {}, narrow.view(), accumulate},
               set.kernels, pools.three);
        run_in({{dy.view(), true}, {u.view(), true}, {}, wide.view(), accumulate}, set.kernels, pools.one);
        EXPECT_EQ(same(narrow, wide), "") << "accumulate: " << accumulate;
        EXPECT_TRUE(narrow.margins_untouched());
      }
    }
}

// y = x W^T, dx = dy W, dW = dy^T x: the operands are read the right way round.
// A row's bits do not depend on how many rows there are.
TEST(RowsApart, AnyNumberOfRowsGivesTheSameBits) {
  std::mt19937 random(12);
  for (const KernelSet& set : kernel_sets())
    for (const DType type : kTypes)
      for (const std::int64_t inputs : {7, 64, 576, 1537}) {
        const MatrixKernels& kernels = set.kernels;
        if (!kernels.rows_apart || (set.only_bf16 && type != DType::kBF16)) continue;
        if (set.only_bf16 && inputs > 64) continue;  // slow
        constexpr std::int64_t kTokens = 301, kOutputs = 45;
        Matrix x(type, kTokens, inputs, false), w(type, kOutputs, inputs, false);
        x.fill(random), w.fill(random);
        Matrix all(DType::kF32, kTokens, kOutputs, false);
        WorkerPool one(1), three(3);
        const auto product = [&](std::int64_t begin, std::int64_t count, Matrix& out, WorkerPool& pool) {
          const Gemm gemm{{x.view().slice(begin, count)}, {w.view()}, {}, out.view().slice(begin, count)};
          run_in(gemm, kernels, pool);
        };
        product(0, kTokens, all, one);
        for (const std::int64_t step :
             {1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 13, 14, 16, 17, 19, 25, 32, 33, 63, 64, 65, 150}) {
          Matrix pieces(DType::kF32, kTokens, kOutputs, false);
          for (std::int64_t begin = 0; begin < kTokens; begin += step)
            product(begin, std::min(step, kTokens - begin), pieces, three);
          EXPECT_EQ(pieces.memory, all.memory) << set.name << " " << name_of(type) << " " << step;
        }
      }
}

// Rows so long that few of them stay in a cache: tokens are taken in parts of any size.
TEST(RowsApart, LongRows) {
  std::mt19937 random(13);
  for (const KernelSet& set : kernel_sets()) {
    if (!set.kernels.rows_apart || set.only_bf16) continue;
    constexpr std::int64_t kInputs = 12002, kTokens = 90, kOutputs = 19;
    Matrix x(DType::kBF16, kTokens, kInputs, false), w(DType::kBF16, kOutputs, kInputs, false);
    x.fill(random), w.fill(random);
    WorkerPool pool(2);
    const auto product = [&](std::int64_t begin, std::int64_t count, Matrix& out) {
      run_in({{x.view().slice(begin, count)}, {w.view()}, {}, out.view().slice(begin, count)}, set.kernels,
             pool);
    };
    Matrix alone(DType::kF32, kTokens, kOutputs, false);
    for (std::int64_t i = 0; i < kTokens; ++i) product(i, 1, alone);
    for (std::int64_t count = 9; count <= kTokens; ++count) {
      Matrix together(DType::kF32, kTokens, kOutputs, false);
      product(0, count, together);
      const std::size_t bytes = static_cast<std::size_t>(count * kOutputs) * 4;
      EXPECT_EQ(std::memcmp(together.memory.data(), alone.memory.data(), bytes), 0)
          << set.name << " " << count;
    }
  }
}

TEST(LinearAsGemm, Layouts) {
  Matrix x(DType::kF32, 2, 3, false), w(DType::kF32, 4, 3, false), y(DType::kF32, 2, 4, false);
  const Gemm forward = gemm_of(LinearForward{x.view(), w.view(), {}, y.view()});
  EXPECT_EQ(forward.a.rows(), 2);
  EXPECT_EQ(forward.b.rows(), 4);
  EXPECT_EQ(forward.a.reduction(), 3);
  EXPECT_EQ(forward.b.reduction(), 3);
  const Gemm input = gemm_of(LinearBackwardInput{y.view(), w.view(), x.view(), true});
  EXPECT_EQ(input.a.rows(), 2);
  EXPECT_EQ(input.b.rows(), 3);
  EXPECT_EQ(input.a.reduction(), 4);
  EXPECT_EQ(input.b.reduction(), 4);
  EXPECT_TRUE(input.accumulate);
  const Gemm weight = gemm_of(LinearBackwardWeight{x.view(), y.view(), w.view(), {}, true});
  EXPECT_EQ(weight.a.rows(), 4);
  EXPECT_EQ(weight.b.rows(), 3);
  EXPECT_EQ(weight.a.reduction(), 2);
  EXPECT_EQ(weight.b.reduction(), 2);
}

// More rows than one task takes, more of the reduction than one block: with tails everywhere.
TEST_P(GemmTest, SeveralTasks) {
  Pools pools;
  std::mt19937 random(12);
  check_case({530, 70, 331, DType::kBF16, DType::kBF16, false, false, true, false, true}, GetParam(), random,
             pools);
  check_case({530, 35, 331, DType::kBF16, DType::kF32, true, true, false, true, false}, GetParam(), random,
             pools);
  check_case({370, 70, 1701, DType::kBF16, DType::kF32, true, true, false, true, true}, GetParam(), random,
             pools);
}

// Kernels on tiles read rows in place where these are whole lines of the cache, and pack others. What follows
// the rows is not a number: whoever reads it has it in the sums.
TEST_P(GemmTest, RowsInPlaceHaveTheBitsOfPackedOnes) {
  if (GetParam().kernels.bf16 == nullptr) return;  // products of bf16 are those of fp32
  WorkerPool pool{3};
  std::mt19937 random(16);
  for (const std::int64_t m : {129, 144, 160, 205})
    for (const auto& [n, r] :
         {std::pair<std::int64_t, std::int64_t>{40, 96}, {70, 576}, {33, 1600}, {20, 2048}})
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(fmt::format("{}x{}x{} accumulate={}", m, n, r, accumulate));
        Matrix b(DType::kBF16, n, r, false), bias(DType::kF32, 1, n, false);
        b.fill(random);
        bias.fill(random);
        Matrix numbers(DType::kBF16, m, r, false);
        numbers.fill(random);
        const std::size_t bytes = static_cast<std::size_t>(m * r) * 2;
        std::vector<std::byte> memory(bytes + 256, std::byte{0xff});
        const std::size_t line = -reinterpret_cast<std::uintptr_t>(memory.data()) % 64;
        std::vector<std::vector<std::byte>> outs;
        for (const std::size_t shift : {0, 2}) {
          std::ranges::fill(memory, std::byte{0xff});
          std::memcpy(memory.data() + line + shift, numbers.memory.data(), bytes);
          Matrix out(DType::kF32, m, n, true);
          if (accumulate) out.memory.assign(out.memory.size(), std::byte{0x3e});
          Gemm g{.a = {TensorView(memory.data() + line + shift, DType::kBF16, {m, r}), false},
                 .b = {b.view(), false},
                 .bias = bias.view().reshape({n}),
                 .out = out.view(),
                 .accumulate = accumulate};
          EXPECT_EQ(plan_of(g, GetParam().kernels, pool.size()).rows_in_place,
                    GetParam().kernels.bf16->reads_rows && shift == 0 && r != 2048);
          run_in(g, GetParam().kernels, pool);
          EXPECT_TRUE(accumulate || out.margins_untouched());
          outs.push_back(out.memory);
        }
        EXPECT_EQ(outs[0], outs[1]);
      }
}

// An output that is larger than the caches is written past them where its rows are whole lines: with the same
// result as in pieces, which are not.
TEST_P(GemmTest, OutputsPastTheCaches) {
  constexpr std::int64_t m = 4100, n = 544, r = 40, piece = 900;
  Pools pools;
  std::mt19937 random(13);
  Matrix a(DType::kBF16, m, r, false), b(DType::kBF16, n, r, false), bias(DType::kF32, 1, n, false);
  a.fill(random);
  b.fill(random);
  bias.fill(random);
  for (const DType type : {DType::kBF16, DType::kF32}) {
    const auto bytes = static_cast<std::size_t>(m * n) * size_of(type);
    std::vector<std::byte> memory(2 * bytes + 64, std::byte{0x7b});
    void* aligned = memory.data();
    std::size_t space = memory.size();
    std::align(64, 2 * bytes, aligned, space);
    const TensorView whole(aligned, type, {m, n}), pieces(whole.byte_offset(m * n), type, {m, n});
    Gemm g{{a.view(), false}, {b.view(), false}, bias.view().reshape({n}), whole, false};
    run_in(g, GetParam().kernels, pools.three);
    for (std::int64_t row = 0; row < m; row += piece) {
      const std::int64_t rows = std::min(piece, m - row);
      g.a.matrix = a.view().slice(row, rows);
      g.out = pieces.slice(row, rows);
      run_in(g, GetParam().kernels, pools.three);
    }
    EXPECT_EQ(std::memcmp(whole.data, pieces.data, bytes), 0) << name_of(type);
  }
}

#if defined(__x86_64__) && defined(__linux__)
// The instructions of the tile kernels give the bits of the emulation that the rest of the suite trusts.
TEST(Tiles, InstructionsAndEmulationAgree) {
  if (best_instruction_set() < InstructionSet::kAvx512Bf16) GTEST_SKIP() << "needs AVX-512-BF16";
  const TileTrap trap;
  const std::int64_t before = TileTrap::count();
  WorkerPool pool(1);
  std::mt19937 random(13);
  for (const bool transposed : {false, true}) {
    Matrix a(DType::kBF16, transposed ? 390 : 170, transposed ? 170 : 390, true),
        b(DType::kBF16, 77, 390, true);
    a.fill(random);
    b.fill(random);
    Matrix out(DType::kF32, 170, 77, true), again = out;
    Gemm g{.a = {a.view(), transposed},
           .b = {b.view(), false},
           .bias = {},
           .out = out.view(),
           .accumulate = false};
    MatrixKernels kernels = matrix_kernels(InstructionSet::kAmxBf16);
    run_in(g, kernels, pool);
    kernels.bf16 = &portable::emulated_products();
    g.out = again.view();
    run_in(g, kernels, pool);
    EXPECT_EQ(out.memory, again.memory);
    EXPECT_FALSE(TileTrap::state().configured()) << "tiles are released";
  }
  if (best_instruction_set() == InstructionSet::kAvx512Bf16) {
    // 6 x 3 panels and 13 steps of four products, twice; edges have fewer
    EXPECT_GT(TileTrap::count() - before, 2 * 15 * 13 * 8);
  }
}
#endif

TEST(SelfCheck, SeesBrokenTilesAndFallsBack) {
  const InstructionSet best = best_instruction_set();
  const MatrixKernels tiles = with_emulated_tiles(best), broken = with_broken_tiles(best);
  EXPECT_EQ(difference(tiles, matrix_kernels(best)), "");
  EXPECT_NE(difference(broken, matrix_kernels(best)), "");
  if (best < InstructionSet::kAvx512Bf16) return;
  std::string complaint;
  EXPECT_EQ(trusted_instruction_set(InstructionSet::kAmxBf16, broken, complaint),
            InstructionSet::kAvx512Bf16);
  EXPECT_NE(complaint.find("amx-bf16 is not used"), std::string::npos) << complaint;
  complaint.clear();
  EXPECT_EQ(trusted_instruction_set(InstructionSet::kAmxBf16, tiles, complaint), InstructionSet::kAmxBf16);
  EXPECT_EQ(trusted_instruction_set(InstructionSet::kAvx2, complaint), InstructionSet::kAvx2);
  EXPECT_EQ(complaint, "");
}

TEST(InstructionSets, NamesRoundTrip) {
  for (auto isa : sets_of_this_machine()) EXPECT_EQ(instruction_set_from_name(name_of(isa)), isa);
  EXPECT_THROW(instruction_set_from_name("avx3"), ConfigError);
}

}  // namespace
}  // namespace stoa::ops::cpu
