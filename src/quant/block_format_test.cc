// Formats of quantised numbers beside the reference implementation, and the error of the encoders.
#include "quant/block_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/philox.h"
#include "base/test_paths.h"

namespace stoa::quant {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::byte> unhex(const std::string& text) {
  std::vector<std::byte> out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    out.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return out;
}

std::vector<float> floats(const std::vector<std::byte>& bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

// tests/oracle/make_quant_fixtures.py.
TEST(BlockFormat, DecodesAndEncodesAsTheReferenceDoes) {
  std::istringstream lines(read_text(test::source_dir() / "tests/fixtures/quant/blocks.txt"));
  std::string what, name, given, expected;
  int decoded = 0, encoded = 0;
  while (lines >> what >> name >> given >> expected) {
    const BlockFormat& format = block_format(name);
    const auto from = unhex(given), to = unhex(expected);
    if (what == "decode") {
      ++decoded;
      std::vector<float> out(to.size() / sizeof(float));
      decode_numbers(format, from.data(), 0, static_cast<std::int64_t>(out.size()), out.data());
      EXPECT_EQ(0, std::memcmp(out.data(), to.data(), to.size())) << name;
      // Any range of a row, from within a block too.
      std::vector<float> part(out.size() / 2 + 3);
      decode_numbers(format, from.data(), 5, static_cast<std::int64_t>(part.size()), part.data());
      EXPECT_TRUE(std::equal(part.begin(), part.end(), out.begin() + 5)) << name;
    } else {
      ++encoded;
      const auto numbers = floats(from);
      std::vector<std::byte> out(to.size());
      encode_numbers(format, numbers.data(), static_cast<std::int64_t>(numbers.size()), nullptr, out.data());
      EXPECT_EQ(out, to) << name;
    }
  }
  EXPECT_EQ(decoded, 16);
  EXPECT_EQ(encoded, 6);
}

std::vector<float> normal_numbers(std::size_t count) {
  const PhiloxKey key = philox_key(1, RandomPurpose::kTest, "blocks");
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    double sum = -6;  // of twelve numbers of [0, 1): nearly normal
    for (std::uint64_t k = 0; k < 12; ++k) sum += static_cast<double>(philox_word(key, i * 12 + k)) * 0x1p-32;
    out[i] = static_cast<float>(0.05 * sum);
  }
  return out;
}

double relative_error(const BlockFormat& format, const std::vector<float>& x, const float* weights) {
  std::vector<std::byte> blocks(
      static_cast<std::size_t>(format.row_bytes(static_cast<std::int64_t>(x.size()))));
  std::vector<float> back(x.size());
  encode_numbers(format, x.data(), static_cast<std::int64_t>(x.size()), weights, blocks.data());
  decode_numbers(format, blocks.data(), 0, static_cast<std::int64_t>(x.size()), back.data());
  double errors = 0, squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double w = weights ? weights[i] : 1;
    errors += w * (back[i] - x[i]) * (back[i] - x[i]);
    squares += w * x[i] * x[i];
  }
  return std::sqrt(errors / squares);
}

// The error that a format has on normal numbers follows from its bits; a wrong place of a bit shows at once.
TEST(BlockFormat, EncodersKeepTheNumbers) {
  const auto x = normal_numbers(256 * 64);
  const std::pair<const char*, double> most[] = {
      {"F32", 0},       {"F16", 3e-4},   {"BF16", 2.2e-3}, {"Q8_0", 6e-3}, {"Q6_K", 0.02}, {"Q5_K", 0.037},
      {"Q5_1", 0.045},  {"Q5_0", 0.05},  {"Q4_K", 0.073},  {"Q4_1", 0.09}, {"Q4_0", 0.1},  {"IQ4_NL", 0.08},
      {"IQ4_XS", 0.08}, {"MXFP4", 0.16}, {"Q3_K", 0.16},   {"Q2_K", 0.36}};
  for (const auto& [name, error] : most)
    EXPECT_LE(relative_error(block_format(name), x, nullptr), error) << name;
}

// Weights matter: the weighted error falls where they are given.
TEST(BlockFormat, AnImportanceLowersTheWeightedError) {
  const auto x = normal_numbers(256 * 64);
  std::vector<float> weights(x.size());
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = i % 8 == 0 ? 50.0f : 0.1f;
  for (const char* name : {"Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"}) {
    const BlockFormat& format = block_format(name);
    std::vector<std::byte> blocks(
        static_cast<std::size_t>(format.row_bytes(static_cast<std::int64_t>(x.size()))));
    std::vector<float> back(x.size());
    encode_numbers(format, x.data(), static_cast<std::int64_t>(x.size()), nullptr, blocks.data());
    decode_numbers(format, blocks.data(), 0, static_cast<std::int64_t>(x.size()), back.data());
    double errors = 0, squares = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      errors += weights[i] * (back[i] - x[i]) * (back[i] - x[i]);
      squares += weights[i] * x[i] * x[i];
    }
    EXPECT_LT(relative_error(format, x, weights.data()), std::sqrt(errors / squares)) << name;
  }
}

TEST(BlockFormat, ZerosStayZeros) {
  const std::vector<float> zeros(256, 0.0f);
  for (const BlockFormat& format : block_formats()) {
    if (!format.encode) continue;
    std::vector<std::byte> blocks(static_cast<std::size_t>(format.row_bytes(256)));
    std::vector<float> back(256, 1.0f);
    encode_numbers(format, zeros.data(), 256, nullptr, blocks.data());
    decode_numbers(format, blocks.data(), 0, 256, back.data());
    for (const float value : back) EXPECT_EQ(value, 0.0f) << format.name;
  }
}

TEST(BlockFormat, OthersAreRefusedByName) {
  EXPECT_THAT([] { block_format(std::uint32_t{16}); }, ThrowsMessage<DataError>(HasSubstr("IQ2_XXS")));
  EXPECT_THAT([] { block_format(std::uint32_t{77}); }, ThrowsMessage<DataError>(HasSubstr("none of GGUF's")));
  EXPECT_THAT([] { block_format("q4k"); }, ThrowsMessage<DataError>(HasSubstr("did you mean 'Q4_K'")));
}

}  // namespace
}  // namespace stoa::quant
