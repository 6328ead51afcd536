#include "eval/xz_size.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

namespace stoa::eval {
namespace {

// Figures of `xz -9 -T1 -c | wc -c` (xz 5.4.1).
TEST(XzSize, IsThatOfTheProgram) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += fmt::format("{} squared is {}\n", i, i * i);
  EXPECT_EQ(xz_size({text}), 69204);
  const std::string_view all = text;
  EXPECT_EQ(xz_size({all.substr(0, 1000), all.substr(1000, 0), all.substr(1000)}), 69204);
  EXPECT_EQ(xz_size({}), 32);
}

}  // namespace
}  // namespace stoa::eval
