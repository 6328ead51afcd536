// Fuzz target of the YAML reader, overrides and references. As a test it runs over seeds and their mutations
// for a second; tests/slow/fuzz.sh runs it with libFuzzer.
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "config/reader.h"
#include "config/yaml.h"

namespace stoa::config {
namespace {

struct Target {
  std::string name;
  std::int64_t count = 1;
  std::vector<double> list;
  std::optional<bool> flag;
};

Section<Target> target_schema() {
  Section<Target> s;
  s.field("name", &Target::name);
  s.field("a.count", &Target::count).range(-5, 1e6).alias("number");
  s.field("a.list", &Target::list);
  s.field("flag", &Target::flag);
  s.short_form("a", "count");
  return s;
}

constexpr ForeignKey kRetired[] = {{"old.*", "gone"}, {"a.b.c", "refused", "false"}};

// Anything may be refused, with an Error; nothing may crash, hang or allocate without bound. What is accepted
// prints and reads back to itself.
void read_once(std::string_view text) {
  const auto section = target_schema();
  try {
    std::vector<Node> layers;
    layers.push_back(parse_yaml(text, "fuzz"));
    if (!layers.front().is_map()) return;
    const auto line = text.substr(0, text.find('\n'));
    const std::string arguments[] = {std::string(line)};
    Overrides overrides;
    try {
      overrides = parse_overrides(arguments, 1);
    } catch (const Error&) {
    }
    const Node root = merge_layers(section.schema(), std::move(layers), overrides);
    if (!parse_yaml(write_yaml(root), "again").same_value(root))
      throw std::logic_error("written YAML reads differently");
    Target target;
    read_object(section.schema(), root, &target, {{}, kRetired});
    const std::string printed = write_yaml(section.schema().print(&target));
    Target again;
    std::vector<Node> second;
    second.push_back(parse_yaml(printed, "printed"));
    read_object(section.schema(), merge_layers(section.schema(), std::move(second)), &again, {});
    if (write_yaml(section.schema().print(&again)) != printed)
      throw std::logic_error("printed YAML reads differently");
  } catch (const Error&) {
  }
}

}  // namespace
}  // namespace stoa::config

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stoa::config::read_once({reinterpret_cast<const char*>(data), size});
  return 0;
}

#ifndef STOA_LIBFUZZER
#include <gtest/gtest.h>

#include <chrono>

#include "base/philox.h"

namespace stoa::config {
namespace {

TEST(YamlFuzz, SeedsAndMutations) {
  const std::string seeds[] = {
      "name: x\na: {count: 3, list: [1, 2.5, 1e-4]}\nflag: true\n",
      "a.count=3\nname: \"${a.count} and ${.flag}\"\nflag: null\n",
      "a: &x [1, [2, 3], {b: *y}]\nnumber: ${multiply:2,${add:1,2}}\n",
      "old:\n  - a\n  - 'b''c'\n  - \"\\x41\\u00e9\"\na: |\n  text\n  more\n",
      "? key\n: value\n--- # comment\n%YAML 1.2\n!!str tag: !x y\n<<: *z\n",
      "a: 5\nname: >-\n  folded ${name}\n  ${divide:1,0}\nold: {x: ${nowhere}}\n",
      "[[[[[[[[[[[[[[[[[[[[{a: {b: {c: true}}}]]]]]",
      "a: {b: {c: False}}\nnumber: 1_000\nflag: ~\n",
  };
  const std::string tokens[] = {"${", "}",    "&a ",          "*a",  "[",          "]",    "{",  "}", ": ",
                                "\n", "- ",   "\"",           "'",   "a:",         "..",   "\t", "|", ">",
                                "!!", "\xff", "\xe2\x80\xa8", "1e9", "${a.count}", "${..}"};
  const PhiloxKey key = philox_key(2024, RandomPurpose::kTest, "yaml");
  std::uint64_t draw = 0;
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(philox_word(key, draw++) % n); };
  const auto start = std::chrono::steady_clock::now();
  std::size_t runs = 0;
  while (runs < 100 || std::chrono::steady_clock::now() - start < std::chrono::milliseconds(1000)) {
    std::string text = seeds[runs % std::size(seeds)];
    const std::size_t edits = runs < std::size(seeds) ? 0 : 1 + below(8);
    for (std::size_t i = 0; i < edits && !text.empty(); ++i) {
      const std::size_t at = below(text.size());
      switch (below(5)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text.erase(at, 1 + below(8));
          break;
        case 2:
          text.insert(at, tokens[below(std::size(tokens))]);
          break;
        case 3:
          text.insert(at, text.substr(below(text.size()), below(40)));
          break;
        default:
          text.resize(at);
          break;
      }
    }
    ASSERT_NO_THROW(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()))
        << text;
    ++runs;
  }
}

}  // namespace
}  // namespace stoa::config
#endif
