// Fuzz target of constraints from requests: any bytes as a grammar, a regular expression and a schema are
// compiled or refused with a ConstraintError, and what is compiled can be followed. As a test it runs over
// constraints and mutations of them for a second; tests/slow/fuzz.sh runs it with libFuzzer.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "constraint/constraint.h"
#include "constraint/source.h"

namespace {

using namespace stoa::constraint;

class TokenOne final : public TokenNames {
 public:
  Node by_id(std::int32_t id) const override { return id == 1 ? special_token(1) : nullptr; }
  Node by_text(std::string_view text) const override { return text == "<s>" ? special_token(1) : nullptr; }
};

void follow(const Source& source) {
  static const auto tokens = std::make_shared<const TokenTrie>(
      std::vector<std::string>{"", "<s>", "a", "\"", "{", "}", "[", "]", ":", ",", "1", "ab", "\": \"",
                               "\xC3", "\xA9", "true", " ", "\\", "x"},
      std::vector<std::int32_t>{1});
  try {
    Budget budget({.states = 5000, .seconds = 0.5, .depth = 32});
    const auto constraint =
        std::make_shared<Constraint>(grammar_of(source, TokenOne(), budget), tokens, budget);
    ConstrainedText text(constraint);
    for (int step = 0; step < 20; ++step) {
      const auto mask = text.allowed();
      std::int32_t next = -1;
      for (std::int32_t id = 0; id < tokens->vocabulary(); ++id)
        if (has(*mask, id) && (next < 0 || (id + step) % 3 == 0)) next = id;
      if (next < 0) break;
      if (!text.push(next)) __builtin_trap();  // the mask allowed it
      (void)text.accepts();
      (void)text.complete();
    }
  } catch (const ConstraintError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  follow({.kind = Source::Kind::kGrammar, .text = text});
  follow({.kind = Source::Kind::kRegex, .text = text});
  follow({.kind = Source::Kind::kSchema, .text = text});
  follow({.kind = Source::Kind::kSchema, .text = text, .choices = {}, .schema = {.open_objects = true}});
  return 0;
}

#ifndef STOA_LIBFUZZER
#include <gtest/gtest.h>

#include <chrono>

namespace stoa::constraint {
namespace {

TEST(FuzzConstraint, ConstraintsAndMutations) {
  const std::vector<std::string> seeds{
      "root ::= \"a\"{2,} [^b-d\\u00e9] (item | <s> <[1]>)*\nitem ::= root? \"x\" # end\n",
      R"((^a|[^\]b]+?|\p{L}\d{2,3})*(?:x|\u00e9)$)",
      R"({"type":"object","properties":{"a":{"type":["integer","null"],"minimum":-1.5,"multipleOf":3},"b":{"$ref":"#/$defs/b"}},"required":["a"],"$defs":{"b":{"anyOf":[{"type":"array","items":{"$ref":"#"},"minItems":2,"maxItems":4},{"enum":["x",1,null]}]}}})",
      R"({"oneOf":[{"const":{"a":[1]}},{"type":"string","pattern":"^a","maxLength":5,"format":"date"}],"not":{"type":"boolean"},"if":{"required":["a"]},"then":{"patternProperties":{"^x":{"minLength":2}},"additionalProperties":false}})",
      R"({"allOf":[{"dependentRequired":{"a":["b"]}},{"contains":{"exclusiveMinimum":5}}],"prefixItems":[{},false],"uniqueItems":false,"propertyNames":{"maxLength":3},"minProperties":1})"};
  std::uint64_t state = 777;
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
}  // namespace stoa::constraint
#endif
