#include "config/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "base/error.h"
#include "config/value.h"

namespace stoa::config {
namespace {

using ::testing::HasSubstr;

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "(no error)";
}

std::string yaml_error(const std::string& text) {
  return message_of([&] { parse_yaml(text, "f.yaml"); });
}

TEST(Yaml, KeepsKindsQuotesAndLines) {
  const Node root = parse_yaml("a: 1\nb: \"1\"\nc: [x, ~, 2.5]\nd:\n  e: null\n", "f.yaml");
  EXPECT_FALSE(root.find_path("a")->quoted);
  EXPECT_TRUE(root.find_path("b")->quoted);
  EXPECT_EQ(root.find_path("c")->items.size(), 3U);
  EXPECT_TRUE(root.find_path("c")->items[1].is_null());
  EXPECT_TRUE(root.find_path("d.e")->is_null());
  EXPECT_EQ(root.find_path("d.e")->origin.text(), "f.yaml:5");
}

TEST(Yaml, RefusesWhatWouldBeGuessed) {
  EXPECT_THAT(yaml_error("a: 1\nb: 2\na: 3\n"),
              ::testing::AllOf(HasSubstr("f.yaml:3"), HasSubstr("twice"), HasSubstr("line 1")));
  EXPECT_THAT(yaml_error("a: &x {b: 1}\nc:\n  <<: *x\n"), HasSubstr("merge keys"));
  EXPECT_THAT(yaml_error("a: !!python/object:os.system x\n"), HasSubstr("tag"));
  EXPECT_THAT(yaml_error("a: 1\n---\nb: 2\n"), HasSubstr("second YAML document"));
  EXPECT_THAT(yaml_error("? [a, b]\n: c\n"), HasSubstr("key must be a word"));
  EXPECT_THAT(yaml_error("a: [1, 2\nb: 3\n"), HasSubstr("not valid YAML"));
  EXPECT_THAT(yaml_error(std::string("a: \0b", 5)), HasSubstr("zero byte"));
  EXPECT_THAT(yaml_error("a:\n\tb: 1\n"),
              HasSubstr("f.yaml:2: not valid YAML: the line is indented by a tab"));
}

TEST(Yaml, BoundsNestingAliasesAndSize) {
  EXPECT_THAT(yaml_error(std::string(5000, '[')), HasSubstr("f.yaml"));
  EXPECT_THAT(yaml_error("a: " + std::string(100, '[') + std::string(100, ']')), HasSubstr("nested deeper"));
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 10; ++k) bomb += (k ? ", *a" : "*a") + std::to_string(i - 1);
    bomb += "]\n";
  }
  EXPECT_THAT(yaml_error(bomb), HasSubstr("once aliases are expanded"));
  EXPECT_THAT(yaml_error("a: &x [*x]\n"), HasSubstr("alias"));
  EXPECT_THAT(yaml_error(std::string(kMaxYamlBytes + 1, ' ')), HasSubstr("at most"));
}

// Text at the size limit must be refused or read quickly, whatever its form.
TEST(Yaml, LargeTextsTakeNoQuadraticTime) {
  for (const char* piece :
       {"[", "{", "- ", "? ", "a: ", "[a, ", "'", "&a ", "- [", "\n ", "!t ", "a\n", "*a ", "#", "\"\\"}) {
    std::string text;
    while (text.size() + 8 < kMaxYamlBytes) text += piece;
    const std::clock_t start = std::clock();  // of the processor: a busy machine is no slow parser
    yaml_error(text);
    EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 10) << piece;
  }
}

TEST(Yaml, AliasesCopy) {
  const Node root = parse_yaml("a: &x {b: 1}\nc: *x\n", "f.yaml");
  ASSERT_NE(root.find_path("c.b"), nullptr);
  EXPECT_EQ(root.find_path("c.b")->scalar, "1");
}

TEST(Yaml, WrittenTextReadsBack) {
  Node root = Node::map();
  for (const char* text :
       {"plain",     "true", "no",   "1e5",  "0123", "0x1F", "",   " edge ", "a: b", "# c", "tab\tnew\nline",
        "quote\"\\", "-",    "- x",  "\x01", "~",    "null", "*x", "&x",     "[a",   "{a",  "%",
        "@",         "é",    "1_000"}) {
    root.make_path("v" + std::to_string(root.entries.size())) = Node::text(text);
  }
  root.make_path("list") = Node::sequence({Node::plain("1"), Node{}, Node::text("1"), Node::sequence({})});
  root.make_path("deep.er.key") = Node::plain("2.5");
  root.make_path("nothing") = Node::map();
  const Node again = parse_yaml(write_yaml(root), "written");
  EXPECT_TRUE(again.same_value(root)) << write_yaml(root);
}

TEST(Value, Numbers) {
  EXPECT_EQ(parse_integer("1_000"), 1000);
  EXPECT_EQ(parse_integer("-12"), -12);
  EXPECT_EQ(parse_integer("1e6"), 1'000'000);
  EXPECT_EQ(parse_integer("9223372036854775807"), INT64_MAX);
  for (const char* bad : {"", "1.0", "1.5", "0x10", "010", "1__0", "_1", "1_", "9223372036854775808", "1e-3",
                          "1e30", "abc", "1 "}) {
    EXPECT_EQ(parse_integer(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(parse_real("1e-4"), 1e-4);
  EXPECT_EQ(parse_real("6.0e-4"), 6e-4);
  EXPECT_EQ(parse_real(".5"), 0.5);
  EXPECT_EQ(parse_real("+3"), 3.0);
  for (const char* bad : {"", ".", "-", "1e", "1e999", "nan", ".inf", "inf", "1,5", "0x1p3", "--1"}) {
    EXPECT_EQ(parse_real(bad), std::nullopt) << bad;
  }
  for (const double value : {0.0, 1.0, 6e-4, 1e-30, 1.0 / 3, 4294967296.0, -2.5e300})
    EXPECT_EQ(parse_real(print_real(value)), value);
}

}  // namespace
}  // namespace stoa::config
