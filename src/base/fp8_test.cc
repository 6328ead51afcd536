#include "base/fp8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <string>

#include "base/half.h"
#include "base/test_paths.h"

namespace stoa {
namespace {

// What PyTorch makes of every code and of every bf16 number (tests/oracle/make_fp8_fixtures.py).
template <class T>
void expect_like_pytorch(std::istream& file, const std::string& type) {
  std::string name, kind, value;
  int count = 0;
  ASSERT_TRUE(file >> name >> kind >> count);
  ASSERT_EQ(name + " " + kind, type + " values");
  for (int code = 0; code < count; ++code) {
    file >> value;
    T x;
    x.bits = static_cast<std::uint8_t>(code);
    const auto got = static_cast<float>(x);
    const float expected = std::stof(value);
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(got)) << code;
    else
      EXPECT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(expected)) << code;
  }
  ASSERT_TRUE(file >> name >> kind >> count);
  ASSERT_EQ(name + " " + kind, type + " codes");
  std::uint32_t begin = 0;
  int code = 0;
  ASSERT_TRUE(file >> begin >> code);
  for (int run = 1; run <= count; ++run) {
    std::uint32_t end = 0x10000;
    int next = 0;
    if (run < count) file >> end >> next;
    for (std::uint32_t bits = begin; bits < end; ++bits) {
      bf16 x;
      x.bits = static_cast<std::uint16_t>(bits);
      const T rounded(static_cast<float>(x));
      if (code < 0)
        ASSERT_TRUE(std::isnan(static_cast<float>(rounded))) << bits;
      else
        ASSERT_EQ(rounded.bits, code) << type << " of bf16 bits " << bits;
    }
    begin = end, code = next;
  }
  ASSERT_TRUE(file) << "the table ends early";
}

TEST(Fp8, EveryCodeAndEveryBf16NumberAsInPyTorch) {
  std::ifstream file(test::source_dir() / "tests/fixtures/base/fp8.txt");
  expect_like_pytorch<e4m3>(file, "e4m3");
  expect_like_pytorch<e5m2>(file, "e5m2");
}

TEST(Fp8, TiesGoToTheEvenCode) {
  EXPECT_EQ(static_cast<float>(e4m3(17.0f)), 16);  // between 16 and 18
  EXPECT_EQ(static_cast<float>(e4m3(19.0f)), 20);
  EXPECT_EQ(static_cast<float>(e4m3(0x1p-10f)), 0);  // half of the smallest subnormal
  EXPECT_EQ(static_cast<float>(e4m3(std::nextafter(0x1p-10f, 1.0f))), 0x1p-9f);
  EXPECT_EQ(static_cast<float>(e4m3(std::nextafter(17.0f, 18.0f))), 18);
  EXPECT_EQ(static_cast<float>(e5m2(9.0f)), 8);
  EXPECT_EQ(static_cast<float>(e5m2(11.0f)), 12);
  EXPECT_EQ(static_cast<float>(e5m2(-0x1p-17f)), 0);
  EXPECT_TRUE(std::signbit(static_cast<float>(e5m2(-0x1p-17f))));
}

TEST(Fp8, WhatIsTooLargeSaturates) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float x : {449.0f, 480.0f, 1e30f, kInfinity}) {
    EXPECT_EQ(static_cast<float>(e4m3(x)), e4m3::kLargest);
    EXPECT_EQ(static_cast<float>(e4m3(-x)), -e4m3::kLargest);
  }
  for (const float x : {61440.0f, 1e30f, kInfinity}) {
    EXPECT_EQ(static_cast<float>(e5m2(x)), e5m2::kLargest);
    EXPECT_EQ(static_cast<float>(e5m2(-x)), -e5m2::kLargest);
  }
}

}  // namespace
}  // namespace stoa
