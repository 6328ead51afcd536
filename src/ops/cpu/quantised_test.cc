// Products and lookups of quantised matrices beside their decoded numbers in fp64.
#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"
#include "device/host/host_device.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/quantised_backend.h"
#include "ops/op_context.h"

namespace stoa::ops::cpu {
namespace {

constexpr const char* kHeld[] = {"Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"};

std::vector<float> numbers(std::string_view what, std::int64_t count, float scale) {
  const PhiloxKey key = philox_key(3, RandomPurpose::kTest, what);
  std::vector<float> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = scale * (static_cast<float>(philox_word(key, i)) * 0x1p-31f - 1);
  return out;
}

struct Coded {
  Coded(const char* name, std::int64_t n, std::int64_t k) : format(quant::block_format(name)), values(static_cast<std::size_t>(n * k)) {
    const auto x = numbers(name, n * k, 0.1f);
    bytes.resize(static_cast<std::size_t>(n * format.row_bytes(k)));
    quant::encode_numbers(format, x.data(), n * k, nullptr, bytes.data());
    quant::decode_numbers(format, bytes.data(), 0, n * k, values.data());
    for (std::int64_t r = 0; r < n; ++r) rows.push_back({&format, bytes.data() + r * format.row_bytes(k)});
  }
  const quant::BlockFormat& format;
  std::vector<std::byte> bytes;
  std::vector<float> values;  // decoded
  std::vector<QuantisedRow> rows;
};

std::vector<InstructionSet> available_sets() {
  std::vector<InstructionSet> out;
  for (const auto isa : {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512, InstructionSet::kAvx512Bf16})
    if (isa <= best_instruction_set()) out.push_back(isa);
  return out;
}

// With the input rounded to bytes as the kernels round it, what remains is rounding of sums; with the input as it
// is, the error of its bytes.
TEST(Quantised, ProductsAreThoseOfTheDecodedNumbers) {
  constexpr std::int64_t kN = 43, kK = 512, kM = 5;
  WorkerPool pool(2);
  for (const char* name : kHeld) {
    const Coded w(name, kN, kK);
    const auto matrix = QuantisedMatrix::pack(kK, w.rows);
    ASSERT_TRUE(matrix.has_value()) << name;
    const auto x = numbers("x", kM * kK, 1);
    for (const InstructionSet isa : available_sets()) {
      const QuantisedKernels& kernels = STOA_KERNELS(isa, quantised_kernels);
      std::vector<float> y(kM * kN);
      matrix->product(x.data(), kM, y.data(), kernels, pool);
      std::vector<std::int8_t> codes(kM * kK);
      std::vector<float> scales(kM * kK / 32), sums(kM * kK / 16);
      for (std::int64_t t = 0; t < kM; ++t)
        kernels.quantise(x.data() + t * kK, kK, codes.data() + t * kK, scales.data() + t * kK / 32, sums.data() + t * kK / 16);
      for (std::int64_t t = 0; t < kM; ++t)
        for (std::int64_t n = 0; n < kN; ++n) {
          double exact = 0, rounded = 0, size = 0;
          for (std::int64_t k = 0; k < kK; ++k) {
            const double weight = w.values[static_cast<std::size_t>(n * kK + k)];
            const auto i = static_cast<std::size_t>(t * kK + k);
            exact += weight * x[i];
            rounded += weight * codes[i] * scales[i / 32];
            size += std::abs(weight * x[i]);
          }
          const double got = y[static_cast<std::size_t>(t * kN + n)];
          EXPECT_NEAR(got, rounded, 3e-6 * size) << name << " " << name_of(isa);
          EXPECT_NEAR(got, exact, 3e-3 * size) << name << " " << name_of(isa);
        }
    }
  }
}

// Promise 8: a row has the same bits alone and among others, with one worker and with two.
TEST(Quantised, BitsOfARowDoNotDependOnOthers) {
  constexpr std::int64_t kN = 80, kK = 256, kM = 70;
  WorkerPool one(1), two(2);
  const auto x = numbers("rows", kM * kK, 1);
  for (const char* name : kHeld) {
    const Coded w(name, kN, kK);
    const auto matrix = QuantisedMatrix::pack(kK, w.rows);
    const QuantisedKernels& kernels = STOA_KERNELS(best_instruction_set(), quantised_kernels);
    std::vector<float> all(kM * kN), row(kN);
    matrix->product(x.data(), kM, all.data(), kernels, two);
    for (const std::int64_t t : {0, 1, 37, 63, 64, 69}) {
      matrix->product(x.data() + t * kK, 1, row.data(), kernels, one);
      EXPECT_TRUE(std::equal(row.begin(), row.end(), all.begin() + t * kN)) << name << " row " << t;
    }
  }
}

TEST(Quantised, RowsAreDecodedToTheBit) {
  constexpr std::int64_t kN = 20, kK = 512;
  for (const char* name : kHeld) {
    const Coded w(name, kN, kK);
    const auto matrix = QuantisedMatrix::pack(kK, w.rows);
    std::vector<float> row(kK);
    for (std::int64_t n = 0; n < kN; ++n) {
      matrix->decode(n, row.data());
      for (std::int64_t k = 0; k < kK; ++k)
        ASSERT_EQ(row[static_cast<std::size_t>(k)], w.values[static_cast<std::size_t>(n * kK + k)]) << name << n << " " << k;
    }
  }
}

// Rows of two formats are one matrix where their border is one of panels; other formats are not held.
TEST(Quantised, WhatIsHeld) {
  constexpr std::int64_t kK = 256;
  const Coded a("Q4_K", 32, kK), b("Q6_K", 16, kK), c("Q3_K", 16, kK);
  std::vector<QuantisedRow> rows = a.rows;
  rows.insert(rows.end(), b.rows.begin(), b.rows.end());
  const auto both = QuantisedMatrix::pack(kK, rows);
  ASSERT_TRUE(both.has_value());
  std::vector<float> row(kK);
  both->decode(40, row.data());
  EXPECT_TRUE(std::equal(row.begin(), row.end(), b.values.begin() + 8 * kK));
  EXPECT_FALSE(QuantisedMatrix::pack(kK, c.rows).has_value());
  std::rotate(rows.begin(), rows.begin() + 8, rows.end());
  EXPECT_FALSE(QuantisedMatrix::pack(kK, rows).has_value());
  EXPECT_LT(both->bytes(), a.bytes.size() + b.bytes.size() + 48 * 16);  // little more than in the file
}

// The operations of a model: a product with a bias into strided rows, and a lookup.
TEST(Quantised, BackendsHoldMatrices) {
  constexpr std::int64_t kN = 32, kK = 64;
  WorkerPool pool(1);
  HostDevice device;
  QuantisedBackend backend(std::make_unique<CpuBackend>(pool), pool, best_instruction_set());
  const Coded w("Q8_0", kN, kK);
  std::vector<float> memory(kN * kK, std::nanf("")), bias = numbers("bias", kN, 1), x = numbers("x", 2 * kK, 1), y(2 * kN), looked(2 * kK);
  const TensorView matrix(memory.data(), DType::kF32, {kN, kK});
  ASSERT_TRUE(backend.hold(matrix, w.rows));
  const auto stream = device.create_stream();
  Scratch scratch;
  OpContext context{backend, *stream, scratch};
  run(context, LinearForward{.x = TensorView(x.data(), DType::kF32, {2, kK}),
                             .w = matrix,
                             .bias = TensorView(bias.data(), DType::kF32, {kN}),
                             .y = TensorView(y.data(), DType::kF32, {2, kN})});
  for (std::int64_t n = 0; n < kN; ++n) {
    double sum = bias[static_cast<std::size_t>(n)];
    for (std::int64_t k = 0; k < kK; ++k)
      sum += static_cast<double>(w.values[static_cast<std::size_t>(n * kK + k)]) * x[static_cast<std::size_t>(kK + k)];
    EXPECT_NEAR(y[static_cast<std::size_t>(kN + n)], sum, 5e-3);
  }
  std::vector<std::int32_t> ids{31, 7};
  run(context, EmbeddingForward{.tokens = TensorView(ids.data(), DType::kI32, {2}),
                                .table = matrix,
                                .positions = {},
                                .position_table = {},
                                .dropout = {},
                                .y = TensorView(looked.data(), DType::kF32, {2, kK})});
  EXPECT_TRUE(std::equal(looked.begin(), looked.begin() + kK, w.values.begin() + 31 * kK));
  EXPECT_TRUE(std::equal(looked.begin() + kK, looked.end(), w.values.begin() + 7 * kK));
}

}  // namespace
}  // namespace stoa::ops::cpu
