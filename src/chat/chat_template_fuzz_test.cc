// Fuzz target of chat templates: any text renders or is refused with TemplateError. As a test it runs over
// the fixtures' templates and mutations of them for a second; tests/slow/fuzz.sh runs it with libFuzzer.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "chat/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using stoa::chat::ChatTemplate;
  static const nlohmann::ordered_json messages = {
      {{"role", "system"}, {"content", "Be brief."}},
      {{"role", "user"}, {"content", " Hi \n"}},
      {{"role", "assistant"},
       {"content", "<think>a</think>b"},
       {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", {{"x", 1}}}}}}}}},
      {{"role", "user"}, {"content", "bye"}}};
  stoa::chat::RenderOptions options;
  options.variables = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  options.limits.steps = 100'000;
  options.limits.output_bytes = 1 << 20;
  try {
    (void)ChatTemplate(std::string_view(reinterpret_cast<const char*>(data), size)).render(messages, options);
  } catch (const stoa::chat::TemplateError&) {
  }
  return 0;
}

#ifndef STOA_LIBFUZZER
#include <gtest/gtest.h>

#include <chrono>

#include "base/file.h"
#include "base/test_paths.h"

namespace stoa::chat {
namespace {

TEST(FuzzChatTemplate, FixturesAndMutations) {
  const auto fixture =
      nlohmann::ordered_json::parse(read_text(test::source_dir() / "tests/fixtures/chat/templates.json"));
  std::vector<std::string> seeds;
  for (const auto& t : fixture["templates"]) seeds.push_back(t.get<std::string>());
  std::uint64_t state = 12345;
  const auto below = [&](std::size_t n) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return n == 0 ? 0 : static_cast<std::size_t>(state >> 33) % n;
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  int runs = 0;
  while (runs < 50 || std::chrono::steady_clock::now() < end) {
    std::string input = seeds[below(seeds.size())];
    for (std::size_t change = 1 + below(4); change > 0 && !input.empty(); --change) {
      const std::size_t at = below(input.size());
      switch (below(4)) {
        case 0:
          input[at] = static_cast<char>(below(256));
          break;
        case 1:
          input.erase(at, 1 + below(20));
          break;
        case 2:
          input.insert(at, 1, "{}%#()[]|.,:-+*/~'\"= \n0az_"[below(27)]);
          break;
        default: {
          const std::string& other = seeds[below(seeds.size())];
          const std::size_t from = below(other.size());
          input.insert(at, other.substr(from, below(60)));
        }
      }
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
    ++runs;
  }
}

}  // namespace
}  // namespace stoa::chat
#endif
