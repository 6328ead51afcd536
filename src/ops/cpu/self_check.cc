#include "ops/cpu/self_check.h"

#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/half.h"
#include "ops/cpu/quantised_kernels.h"
#include "ops/cpu/quantised_linear.h"

namespace stoa::ops::cpu {
namespace {

// a [m, r] or its transpose, b [n, r] or its transpose, out fp32.
struct Check {
  std::int64_t m, n, r;
  bool a_transposed, b_transposed, accumulate;
  bool rows_apart = false;
};
// Forward, input gradient, weight gradient; whole tiles and tails, several blocks of the reduction, rows for
// one and for several tasks; a product whose rows are apart, as the engine computes.
constexpr Check kChecks[] = {{33, 47, 95, false, false, false},
                             {33, 47, 95, false, false, false, true},
                             {160, 64, 672, false, false, false},
                             {150, 50, 70, false, true, true},
                             {64, 33, 129, true, true, true}};

std::vector<bf16> noise(std::int64_t count, std::uint32_t state) {
  std::vector<bf16> values(static_cast<std::size_t>(count));
  for (auto& x : values) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<bf16>(static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31f);
  }
  return values;
}

std::vector<float> product(const Check& c, const MatrixKernels& kernels, std::vector<bf16>& a,
                           std::vector<bf16>& b, WorkerPool& pool) {
  const auto matrix = [](std::vector<bf16>& values, std::int64_t rows, std::int64_t columns) {
    return TensorView(values.data(), DType::kBF16, {rows, columns});
  };
  std::vector<float> out(static_cast<std::size_t>(c.m * c.n), 0.25f);
  const Gemm gemm{.a = {c.a_transposed ? matrix(a, c.r, c.m) : matrix(a, c.m, c.r), c.a_transposed},
                  .b = {c.b_transposed ? matrix(b, c.r, c.n) : matrix(b, c.n, c.r), c.b_transposed},
                  .bias = {},
                  .out = TensorView(out.data(), DType::kF32, {c.m, c.n}),
                  .accumulate = c.accumulate};
  std::vector<std::byte> workspace(workspace_bytes(gemm, kernels, pool.size()) + 64);
  void* memory = workspace.data();
  std::size_t space = workspace.size();
  std::align(64, workspace.size() - 64, memory, space);
  run(gemm, kernels, pool, memory);
  return out;
}

constexpr std::int64_t kTokens = 45, kRows = 35, kColumns = 256;
// The matrix repeats a few rows: encoding all of them would take most of the check. 5 does not divide the 16
// rows of a tile, so that tiles differ too.
constexpr std::int64_t kDistinctRows = 5;

// A matrix of numbers in the blocks of its only part's format.
std::vector<std::byte> quantised_matrix(const quant::MatrixShape& shape) {
  const quant::BlockFormat& format = quant::format_of(shape.parts[0].type);
  const auto w = noise(kDistinctRows * kColumns, 4);
  const std::vector<float> numbers(w.begin(), w.end());
  std::vector<std::byte> blocks(static_cast<std::size_t>(kDistinctRows * format.row_bytes(kColumns)));
  quant::encode_numbers(format, numbers.data(), kDistinctRows * kColumns, nullptr, blocks.data());
  std::vector<std::byte> matrix(static_cast<std::size_t>(shape.bytes()));
  quant::pack_groups(
      shape.parts[0], kColumns,
      [&](std::int64_t r) { return blocks.data() + r % kDistinctRows * format.row_bytes(kColumns); }, 0,
      shape.parts[0].groups(), matrix.data());
  return matrix;
}

// Tokens times the matrix.
std::vector<float> quantised_product(const quant::MatrixShape& shape, std::vector<std::byte>& matrix,
                                     const MatrixKernels& kernels, InstructionSet isa, WorkerPool& pool) {
  auto x = noise(kTokens * kColumns, 3);
  std::vector<float> out(static_cast<std::size_t>(kTokens * kRows));
  const QuantisedLinear op{.x = TensorView(x.data(), DType::kBF16, {kTokens, kColumns}),
                           .w = TensorView(matrix.data(), DType::kU8, {shape.bytes()}),
                           .shape = shape,
                           .bias = {},
                           .y = TensorView(out.data(), DType::kF32, {kTokens, kRows})};
  std::vector<std::byte> workspace(workspace_bytes(op, kernels, pool.size()));
  run(op, kernels, isa, pool, workspace.data());
  return out;
}

// Products with quantised matrices on tiles are those on vectors, to the bit.
std::string quantised_difference(const MatrixKernels& candidate, WorkerPool& pool) {
  MatrixKernels vectors = candidate;
  vectors.quantised = nullptr;
  const InstructionSet isa = best_instruction_set();
  for (const quant::BlockType type : {quant::BlockType::kQ8_0, quant::BlockType::kQ4_1,
                                      quant::BlockType::kQ4_K, quant::BlockType::kIQ4_XS}) {
    const quant::MatrixShape shape{kColumns, 1, {{{type, kRows}}}};
    std::vector<std::byte> matrix = quantised_matrix(shape);
    if (quantised_product(shape, matrix, candidate, isa, pool) !=
        quantised_product(shape, matrix, vectors, isa, pool))
      return fmt::format("products with {} differ from those on vectors", quant::format_of(type).name);
  }
  return {};
}

}  // namespace

std::string difference(const MatrixKernels& candidate, const MatrixKernels& trusted) {
  WorkerPool pool(1);
  for (const Check& c : kChecks) {
    auto a = noise(c.m * c.r, 1), b = noise(c.n * c.r, 2);
    MatrixKernels kernels = candidate;
    kernels.rows_apart = c.rows_apart;
    const auto got = product(c, kernels, a, b, pool), expected = product(c, trusted, a, b, pool);
    // Sums of r products below 1 in fp32, in two orders.
    const float bound = static_cast<float>(c.r) * 0x1p-22f;
    for (std::size_t i = 0; i < got.size(); ++i)
      if (!(std::abs(got[i] - expected[i]) <= bound))
        return fmt::format("element {} of a product of {} x {} x {} is {} instead of {}", i, c.m, c.n, c.r,
                           got[i], expected[i]);
  }
  return candidate.quantised ? quantised_difference(candidate, pool) : std::string();
}

InstructionSet trusted_instruction_set(InstructionSet isa, const MatrixKernels& tiles,
                                       std::string& complaint) {
  if (isa != InstructionSet::kAmxBf16) return isa;
  const InstructionSet other = InstructionSet::kAvx512Bf16;
  const std::string found = difference(tiles, matrix_kernels(other));
  if (found.empty()) return isa;
  complaint = fmt::format("{} is not used: {}; {} takes its place", name_of(isa), found, name_of(other));
  return other;
}

InstructionSet trusted_instruction_set(InstructionSet isa, std::string& complaint) {
  if (isa != InstructionSet::kAmxBf16) return isa;
  return trusted_instruction_set(isa, matrix_kernels(isa), complaint);
}

}  // namespace stoa::ops::cpu
