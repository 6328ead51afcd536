// How much of a corpus of other programs' inputs is read right, refused with the expected reason, or wrong:
//   build/release/src/cli_test --gtest_filter='*Corpus.IsRead*'
// prints a line for each.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>

namespace stoa::cli {

struct CorpusCount {
  int right = 0, refused = 0, wrong = 0;
  int invalid = 0;  // of the refused: what its own program does not run either
  int all() const { return right + refused + wrong; }
  void report(const char* name) const {
    ::testing::Test::RecordProperty("right", right);
    ::testing::Test::RecordProperty("refused", refused);
    fmt::print("{}: {} inputs, {} read right ({:.1f} %), {} refused with the reason, {} wrong\n", name, all(),
               right, 100.0 * right / all(), refused, wrong);
    if (invalid > 0)
      fmt::print("  {} of the refused are no inputs of their own program either: {:.1f} % of the others\n",
                 invalid, 100.0 * right / (all() - invalid));
    std::fflush(stdout);
  }
};

}  // namespace stoa::cli
