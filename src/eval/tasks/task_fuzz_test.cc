// Fuzz target of task files: any text is a task or is refused with ConfigError. As a test it runs over the
// tasks of configs/eval and mutations of them for a second; tests/slow/fuzz.sh runs it with libFuzzer.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "eval/tasks/task.h"
#include "eval/tasks/task_yaml.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace eval = stoa::eval;
  try {
    const eval::Json yaml =
        eval::parse_task_yaml({reinterpret_cast<const char*>(data), size}, "folder/task.yaml");
    (void)eval::dumped(yaml);
    eval::Task::check(eval::make_task_config(yaml, "folder/task.yaml"));
  } catch (const stoa::ConfigError&) {
  }
  return 0;
}

#ifndef STOA_LIBFUZZER
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "base/file.h"
#include "base/test_paths.h"

namespace stoa::eval {
namespace {

TEST(FuzzTaskFile, ShippedTasksAndMutations) {
  std::vector<std::string> seeds;
  for (const auto& entry : fs::recursive_directory_iterator(test::source_dir() / "configs/eval"))
    if (entry.path().extension() == ".yaml") seeds.push_back(read_text(entry.path()));
  std::sort(seeds.begin(), seeds.end());
  std::uint64_t state = 12345;
  const auto below = [&](std::size_t n) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return n == 0 ? 0 : static_cast<std::size_t>(state >> 33) % n;
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  int runs = 0;
  while (runs < 200 || std::chrono::steady_clock::now() < end) {
    std::string input = seeds[below(seeds.size())];
    for (std::size_t change = below(5); change > 0 && !input.empty(); --change) {
      const std::size_t at = below(input.size());
      switch (below(4)) {
        case 0:
          input[at] = static_cast<char>(below(256));
          break;
        case 1:
          input.erase(at, 1 + below(20));
          break;
        case 2:
          input.insert(at, 1, "{}[]!&*|>-?:,#'\"\\ \n%@0.~_e"[below(27)]);
          break;
        default: {
          const std::string& other = seeds[below(seeds.size())];
          input.insert(at, other.substr(below(other.size()), below(60)));
        }
      }
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
    ++runs;
  }
  EXPECT_GE(runs, 200);
}

// As PyYAML reads them.
TEST(TaskFile, EscapesAreCharacters) {
  const Json yaml =
      parse_task_yaml("a: \"x\\_y\\Nz\"\nb: 'x\\_y'\nc: \"\xC3\xA0\\_\xE2\x82\xA0\"\n", "t.yaml");
  EXPECT_EQ(yaml["a"], "x\xC2\xA0y\xC2\x85z");
  EXPECT_EQ(yaml["b"], "x\\_y");
  EXPECT_EQ(yaml["c"], "\xC3\xA0\xC2\xA0\xE2\x82\xA0");
  EXPECT_THROW(parse_task_yaml("a: \"x\xA0\"\n", "t.yaml"), ConfigError);
}

TEST(TaskFile, BlankLinesBeforeAClosingQuoteAreThoseOfPyYaml) {
  const auto read = [](const std::string& text) { return parse_task_yaml(text, "t.yaml"); };
  EXPECT_EQ(read("a: \"x.\n\n  \"\nb: 1\n")["a"], "x.\n");
  EXPECT_EQ(read("a: 'it''s\n\n\n  '\n")["a"], "it's\n\n");
  EXPECT_EQ(read("a: \"x\n\n\n\"\n")["a"], "x\n\n");
  EXPECT_EQ(read("a: \"x\\n\n\n  \"\n")["a"], "x\n\n");
  EXPECT_EQ(read("a: \"x\n  y\"\n")["a"], "x y");
  EXPECT_EQ(read("a: \"x\n\n  y\"\n")["a"], "x\ny");
  EXPECT_EQ(read("a: \"x\\n\"\nb: \"\"\n")["a"], "x\n");
}

}  // namespace
}  // namespace stoa::eval
#endif
