// Fuzz target of the bodies of requests: any bytes are read or refused with an ApiError. As a test it runs
// over bodies and mutations of them for a second; tests/slow/fuzz.sh runs it with libFuzzer.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "serve/chat_messages.h"
#include "serve/tools/begun_calls.h"
#include "serve/tools/tool_calls.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stoa::serve;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool lenient : {false, true}) {
    try {
      const RequestBody body(text, fields_of("/v1/chat/completions"), lenient);
      (void)body.integer("n", 1, 128);
      (void)body.number("temperature", 0, 100);
      (void)body.texts("stop", 64);
      (void)body.ids("stop_token_ids", 1000);
      (void)read_messages(body, "messages");
    } catch (const ApiError& error) {
      (void)error.body();
    }
  }
  for (const ToolFamily family : kToolFamilies) {
    (void)read_tool_calls(text.substr(0, 1000), family);
    (void)held_for_tools(text, family);
    GrowingCalls calls(family);
    for (const std::size_t end : {text.size() / 3, text.size() / 2, text.size()})
      calls.read(text.substr(0, std::min<std::size_t>(end, 1000)));
  }
  return 0;
}

#ifndef STOA_LIBFUZZER
#include <gtest/gtest.h>

#include <chrono>

namespace stoa::serve {
namespace {

TEST(FuzzRequest, BodiesAndMutations) {
  const std::vector<std::string> seeds{
      R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a\u00e9"}]}],"stop":["a","b"],"n":2,"temperature":0.5})",
      R"({"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]}],"stop_token_ids":[1,2]})",
      R"(<tool_call>{"name":"f","arguments":{"a":1}}</tool_call>[TOOL_CALLS][{"name":"g"}])",
      R"({"name":"f","parameters":{"a":"};"}}; {"name":"g","parameters":{}})",
      R"([f(a='x\'', b=[1, None, {"k": (2.5,)}]), g.h()])",
      "<tool_call><function=f><parameter=a>\n1\n</parameter></function></tool_call>"
      "<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>[TOOL_CALLS]f[ARGS]{}",
      "<|channel|>analysis<|message|>x<|end|><|start|>assistant<|channel|>commentary to=functions.f "
      "<|constrain|>json<|message|>{}<|call|><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function"
      "<｜tool▁sep｜>f\n```json\n{}\n```<｜tool▁call▁end｜>"};
  std::uint64_t state = 54321;
  const auto below = [&](std::size_t n) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return n == 0 ? 0 : static_cast<std::size_t>(state >> 33) % n;
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (int runs = 0; runs < 50 || std::chrono::steady_clock::now() < end; ++runs) {
    std::string input = seeds[below(seeds.size())];
    for (std::size_t change = below(5); change > 0 && !input.empty(); --change) {
      const std::size_t at = below(input.size());
      switch (below(3)) {
        case 0:
          input[at] = static_cast<char>(below(256));
          break;
        case 1:
          input.erase(at, 1 + below(10));
          break;
        default:
          input.insert(at, input.substr(below(input.size()), below(30)));
      }
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
}

}  // namespace
}  // namespace stoa::serve
#endif
