// Fuzz target of tuning files: any bytes are records that can be encoded, or are refused with DataError. As a
// test it runs over records of every form and mutations of them for a second, or STOA_FUZZ_SECONDS;
// tests/slow/fuzz.sh runs it with libFuzzer.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/test_paths.h"
#include "tune/named_templates.h"
#include "tune/tuning_files.h"

namespace {

const stoa::token::Tokenizer& fuzz_tokenizer() {
  static const stoa::token::Tokenizer tokenizer =
      stoa::tune::with_template(
          stoa::token::Tokenizer::load(stoa::test::source_dir() / "tests/fixtures/token/gpt2"), "chatml")
          .tokenizer;
  return tokenizer;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stoa::tune;
  static const ChatText text = chat_text(fuzz_tokenizer());
  try {
    std::vector<RecordFile> files;
    files.emplace_back("fuzz", std::string(reinterpret_cast<const char*>(data), size));
    const TuningFiles tuning(std::move(files));
    std::vector<std::string> skipped;
    if (tuning.records() > 0 &&
        (tuning.form(0) == RecordForm::kCompared || tuning.form(0) == RecordForm::kQuestion))
      (void)tuning.compared(0, tuning.records(), skipped);
    if (tuning.records() > 0 && tuning.form(0) == RecordForm::kCompared) return 0;
    (void)tuning.encode(0, tuning.records(), {fuzz_tokenizer(), text, 64, 1});
  } catch (const stoa::DataError&) {
  }
  return 0;
}

#ifndef STOA_LIBFUZZER
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace stoa::tune {
namespace {

TEST(FuzzTuningFiles, RecordsAndMutations) {
  const std::vector<std::string> seeds{
      R"({"messages":[{"role":"user","content":"Q"},{"role":"assistant","content":"A","weight":1}],"tools":[]})",
      R"([{"conversations":[{"from":"human","value":"Q"},{"from":"gpt","value":"A"}],"system":"S"},{"conversations":[]}])",
      R"({"instruction":"I","input":"","output":"O"})",
      "{\"prompt\":\"P\",\"completion\":\"C\",\"label\":true}\n{\"prompt\":\"P\",\"completion\":\"C\","
      "\"label\":0}",
      R"({"prompt":"P","chosen":"A","rejected":"B"})",
      R"({"chosen":"\u00e9A","rejected":"\u00e9B"})",
      R"({"input":"I","output":"O"})",
      R"({"query":"Q","positive":"P","negative":["N","M"],"negative_1":"O"})",
      R"({"question":"Q","context":"C","answer":"A"})",
      R"({"text":"T \ud83d\ude00"})",
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"Q"}]},{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]},{"role":"tool","content":"r"}]})"};
  std::uint64_t state = 12345;
  const auto below = [&](std::size_t n) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return n == 0 ? 0 : static_cast<std::size_t>(state >> 33) % n;
  };
  const char* const seconds = std::getenv("STOA_FUZZ_SECONDS");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds ? std::stoi(seconds) : 1);
  int runs = 0;
  while (runs < 50 || std::chrono::steady_clock::now() < end) {
    std::string input = seeds[below(seeds.size())];
    for (std::size_t change = below(5); change > 0 && !input.empty(); --change) {
      const std::size_t at = below(input.size());
      switch (below(4)) {
        case 0:
          input[at] = static_cast<char>(below(256));
          break;
        case 1:
          input.erase(at, 1 + below(8));
          break;
        case 2:
          input.insert(at, input.substr(below(input.size()), below(20)));
          break;
        default:
          input.insert(at, std::string(1, "[]{}\",:0n"[below(9)]));
      }
    }
    (void)LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
    ++runs;
  }
  EXPECT_GE(runs, 50);
  std::printf("%d inputs\n", runs);
}

}  // namespace
}  // namespace stoa::tune
#endif
