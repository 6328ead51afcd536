// Lines of attributes with any bytes are read or refused.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "curate/run/tags.h"
#include "data/text_reader.h"

namespace stoa::curate {
namespace {

std::string tag_line() {
  std::string line;
  TagLine writer("a\"b", line);
  writer.add("stage", {"most", 0.25, 0.3, Verdict::Sense::kAtMost, false});
  writer.add("stage", {"least", HUGE_VAL, 50, Verdict::Sense::kAtLeast, false});
  writer.add("stage", {"nothing", std::nan(""), 1, Verdict::Sense::kAtMost, false});
  writer.add("stage", {"phrase", 1, 0, Verdict::Sense::kNever, true});
  writer.add("stage", {"phrase", 1, 0, Verdict::Sense::kNever, true});
  writer.finish(7);
  line.pop_back();
  return line;
}

TEST(TagsFuzz, LinesAreReadOrRefused) {
  TagReader reader;
  const auto read = [&](std::string line) -> const TaggedDocument& {
    const std::size_t bytes = line.size();
    line.resize(bytes + data::kBlockPadding);
    return reader.read(std::string_view(line).substr(0, bytes), line.size());
  };
  const TaggedDocument& whole = read(tag_line());
  ASSERT_EQ(whole.values.size(), 3U);
  EXPECT_EQ(whole.values[0].rule, "stage/most");
  EXPECT_EQ(whole.values[0].value, 0.25);
  EXPECT_EQ(whole.values[2].sense, Verdict::Sense::kNever);
  EXPECT_EQ(whole.bytes, 7);
  std::mt19937_64 random(1);
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string line = tag_line();
    for (std::uint64_t edits = 1 + random() % 4; edits > 0; --edits) {
      const std::size_t at = random() % line.size();
      if (random() % 3 == 0)
        line.erase(at, random() % 9);
      else
        line[at] = "\"[]{},:<>=-0e.x\\\n"[random() % 17];
      if (line.empty()) line = "{";
    }
    try {
      read(line);
    } catch (const DataError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace stoa::curate
