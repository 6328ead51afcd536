#include "config/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/test_folder.h"
#include "config/reader.h"
#include "config/reference.h"
#include "config/yaml.h"

namespace stoa::config::testing_types {

enum class Colour { kRed, kBlue };
std::span<const EnumName<Colour>> enum_names(Colour) {
  static constexpr std::array<EnumName<Colour>, 3> kNames{
      {{"red", Colour::kRed}, {"blue", Colour::kBlue}, {"azure", Colour::kBlue}}};
  return kNames;
}

struct Inner {
  double rate = 0.5;
  std::optional<std::int64_t> size;
  std::int64_t length = 8;
};
struct Outer {
  std::string name = "x";
  bool flag = false;
  std::int64_t count = 4;
  Colour colour = Colour::kRed;
  std::vector<double> pair = {1, 2};
  std::string path;
  std::int64_t length = 8;
  Inner inner;
};

Section<Outer> schema() {
  Section<Outer> s;
  s.field("name", &Outer::name).help("A name.");
  s.field("flag", &Outer::flag);
  s.field("count", &Outer::count).range(1, 10).alias("number").help("How many.");
  s.field("colour", &Outer::colour);
  s.field("pair", &Outer::pair).length(2).range(0, 9);
  s.field("files.path", &Outer::path);
  s.field("files.length", &Outer::length);
  s.short_form("files", "path");
  s.section("inner", &Outer::inner, [](Section<Inner>& i) {
    i.field("rate", &Inner::rate).above(0).below(1).nemo_default("0.25");
    i.field("size", &Inner::size).derived("3");
    i.field("length", &Inner::length);
    i.resolve([](Inner& c) {
      if (!c.size) c.size = 3;
    });
    i.validate({"rate", "size"},
               [](const Inner& c) { require<ConfigError>(*c.size != 13, "thirteen is refused"); });
  });
  s.share({"files.length", "inner.length"});
  return s;
}

}  // namespace stoa::config::testing_types

namespace stoa::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_types::Colour;
using testing_types::Outer;

constexpr ForeignKey kForeign[] = {
    {"old.*", "gone"}, {"inner.magic", "not done", "false,0"}, {"deep.down.key", "why not"}};

Outer read(const std::string& text, std::vector<std::string> overrides = {}, Report* report = nullptr) {
  const auto section = testing_types::schema();
  std::vector<Node> layers;
  layers.push_back(parse_yaml(text, "f.yaml"));
  const Node root = merge_layers(section.schema(), std::move(layers), parse_overrides(overrides, 1));
  Outer object;
  Report found = read_object(section.schema(), root, &object, {{}, kForeign});
  if (report) *report = found;
  return object;
}

std::string error_of(const std::string& text, std::vector<std::string> overrides = {}) {
  try {
    read(text, std::move(overrides));
  } catch (const Error& error) {
    return error.what();
  }
  return "(no error)";
}

TEST(Schema, ReadsDefaultsAndResolves) {
  const Outer o = read("{}");
  EXPECT_EQ(o.count, 4);
  EXPECT_EQ(o.inner.size, 3);
  const Outer p = read("{count: 7, colour: azure, flag: true, pair: [3, 4.5], inner: {size: 1_000}}");
  EXPECT_EQ(p.count, 7);
  EXPECT_EQ(p.colour, Colour::kBlue);
  EXPECT_TRUE(p.flag);
  EXPECT_EQ(p.pair, (std::vector<double>{3, 4.5}));
  EXPECT_EQ(p.inner.size, 1000);
}

TEST(Schema, UnknownKeyNamesTheNearest) {
  EXPECT_THAT(error_of("name: a\ncuont: 3\n"),
              AllOf(HasSubstr("f.yaml:2"), HasSubstr("cuont"), HasSubstr("'count'")));
  EXPECT_THAT(error_of("rate: 0.1\n"), HasSubstr("'inner.rate'"));
  EXPECT_THAT(error_of("{}", {"inner.raet=1"}), AllOf(HasSubstr("command line"), HasSubstr("'inner.rate'")));
  EXPECT_THAT(error_of("inner.rate: 1\n"), HasSubstr("nest the mappings"));
}

TEST(Schema, WrongTypesSayWhatIsExpected) {
  EXPECT_THAT(error_of("count: many\n"), AllOf(HasSubstr("f.yaml:1: count: many"), HasSubstr("an integer")));
  EXPECT_THAT(error_of("count: 2.5\n"), HasSubstr("an integer"));
  EXPECT_THAT(error_of("count: \"2\"\n"), HasSubstr("without quotes"));
  EXPECT_THAT(error_of("count: null\n"), HasSubstr("an integer"));
  EXPECT_THAT(error_of("flag: yes\n"), HasSubstr("true or false"));
  EXPECT_THAT(error_of("name: yes\n"), HasSubstr("write \"yes\""));
  EXPECT_EQ(read("name: \"yes\"\n").name, "yes");
  EXPECT_THAT(error_of("colour: blu\n"), AllOf(HasSubstr("one of red, blue, azure"), HasSubstr("'blue'")));
  EXPECT_THAT(error_of("inner: 3\n"), HasSubstr("mapping"));
  EXPECT_THAT(error_of("pair: 3\n"), HasSubstr("list of number"));
  EXPECT_THAT(error_of("[1, 2]"), HasSubstr("mapping"));
}

TEST(Schema, RangesCountBothEnds) {
  EXPECT_EQ(read("count: 10\n").count, 10);
  EXPECT_THAT(error_of("count: 11\n"), AllOf(HasSubstr("11"), HasSubstr("1 to 10")));
  EXPECT_THAT(error_of("inner: {rate: 0}\n"), HasSubstr("above 0"));
  EXPECT_THAT(error_of("inner: {rate: 1}\n"), HasSubstr("below 1"));
  EXPECT_THAT(error_of("pair: [1, 2, 3]\n"), HasSubstr("2 values"));
  EXPECT_THAT(error_of("pair: [1, 10]\n"), HasSubstr("0 to 9"));
}

TEST(Schema, AllProblemsAtOnce) {
  EXPECT_THAT(error_of("count: 99\nflag: 1\nnmae: x\n"),
              AllOf(HasSubstr("count"), HasSubstr("flag"), HasSubstr("nmae")));
}

TEST(Schema, CrossCheckNamesThePlaces) {
  EXPECT_THAT(
      error_of("name: a\ninner:\n  size: 13\n"),
      AllOf(HasSubstr("inner.size (f.yaml:3)"), HasSubstr("inner.rate (default)"), HasSubstr("thirteen")));
}

TEST(Schema, AliasesAndSharedKeysHoldOneValue) {
  EXPECT_EQ(read("number: 5\n").count, 5);
  EXPECT_EQ(read("number: 5\ncount: 5\n").count, 5);
  EXPECT_THAT(error_of("number: 5\ncount: 6\n"), HasSubstr("contradicts"));
  const Outer o = read("inner: {length: 16}\n");
  EXPECT_EQ(o.length, 16);
  EXPECT_EQ(o.inner.length, 16);
  EXPECT_THAT(error_of("inner: {length: 16}\nfiles: {length: 17}\n"),
              AllOf(HasSubstr("f.yaml:1"), HasSubstr("f.yaml:2"), HasSubstr("contradicts")));
  // The command line has the last word, under either name.
  EXPECT_EQ(read("inner: {length: 16}\n", {"files.length=32"}).inner.length, 32);
  EXPECT_EQ(read("files: {length: 16}\n", {"inner.length=32"}).length, 32);
}

TEST(Schema, OverridesAndShortForms) {
  EXPECT_EQ(read("count: 2\n", {"count=3"}).count, 3);
  EXPECT_EQ(read("count: 2\n", {"++count=3", "+flag=true"}).count, 3);
  EXPECT_EQ(read("count: 2\n", {"~count"}).count, 4);
  EXPECT_EQ(read("files: a/b\n").path, "a/b");
  const Outer o = read("files: {path: x, length: 9}\n", {"files=y"});
  EXPECT_EQ(o.path, "y");
  EXPECT_EQ(o.length, 9);
  EXPECT_EQ(read("{}", {"files=y", "files.length=5"}).path, "y");
  EXPECT_EQ(read("{}", {"pair=[5,6]"}).pair, (std::vector<double>{5, 6}));
  EXPECT_THROW(read("{}", {"count"}), UsageError);
  EXPECT_THROW(read("{}", {"=3"}), UsageError);
  EXPECT_THROW(read("{}", {"a..b=3"}), UsageError);
  EXPECT_THAT(error_of("{}", {"~count"}), HasSubstr("no such key"));
}

TEST(Schema, References) {
  EXPECT_EQ(read("count: 2\nname: \"run-${count}\"\n").name, "run-2");
  EXPECT_EQ(read("count: ${multiply:2,${inner.size}}\ninner: {size: 3}\n").count, 6);
  EXPECT_EQ(read("inner: {size: '${.length}', length: 5}\n").inner.size, 5);
  EXPECT_EQ(read("inner: {size: '${..count}'}\ncount: 2\n").inner.size, 2);
  EXPECT_EQ(read("inner: {size: '${count}'}\n").inner.size, 4) << "a default";
  EXPECT_EQ(read("count: ${divide:6,2}\n").count, 3);
  EXPECT_EQ(read("count: ${divide_ceil:7,2}\n").count, 4);
  EXPECT_THAT(error_of("count: ${divide:7,2}\n"), HasSubstr("an integer"));
  EXPECT_THAT(error_of("count: ${divide:7,0}\n"), HasSubstr("division by zero"));
  EXPECT_EQ(read("count: ${training.inner.size}\ninner: {size: 5}\n").count, 5);
  EXPECT_THAT(error_of("count: ${inner.size}\ninner: {size: '${count}'}\n"),
              AllOf(HasSubstr("refers back"), HasSubstr("f.yaml:")));
  EXPECT_THAT(error_of("count: ${nowhere}\n"), AllOf(HasSubstr("nowhere"), HasSubstr("not given")));
  EXPECT_EQ(read("count: ${oc.env:STOA_NOT_SET,7}\n").count, 7);
  EXPECT_THAT(error_of("count: ${oc.env:STOA_NOT_SET}\n"), HasSubstr("no such environment variable"));
  EXPECT_THAT(error_of("count: ${oc.dict:HOME}\n"), HasSubstr("unknown function"));
  EXPECT_THAT(error_of("count: \"x${count\"\n"), HasSubstr("without its"));
  EXPECT_THAT(error_of("name: \"a${inner}\"\ninner: {size: 1}\n"), HasSubstr("inside text"));
}

TEST(Schema, ReferencesCannotExplode) {
  std::string text = "x0: aaaaaaaaaaaaaaaaaaaa\n";
  for (int i = 1; i < 12; ++i) {
    text += "x" + std::to_string(i) + ": \"";
    for (int k = 0; k < 10; ++k) text += "${x" + std::to_string(i - 1) + "}";
    text += "\"\n";
  }
  EXPECT_THAT(error_of(text + "name: ${x11}\n"), HasSubstr("expand to too much"));
}

TEST(Schema, ForeignKeysAreReportedOrRefused) {
  Report report;
  const Outer o =
      read("old: {a: 1, b: '${nowhere}'}\ninner: {magic: False}\ndeep: {down: {key: 4}}\n", {}, &report);
  EXPECT_EQ(report.ignored.size(), 3U);
  EXPECT_EQ(o.inner.rate, 0.25) << "the default of the family that the file was written for";
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_THAT(report.notes[0], HasSubstr("inner.rate"));
  EXPECT_EQ(read("inner: {magic: 0.0, rate: 0.75}\n").inner.rate, 0.75);
  EXPECT_THAT(error_of("inner: {magic: true}\n"),
              AllOf(HasSubstr("cannot be honoured"), HasSubstr("not done")));
  EXPECT_THAT(error_of("deep: {up: 1}\n"), HasSubstr("unknown key"));
}

TEST(Schema, PrintedTreeReadsBack) {
  const auto section = testing_types::schema();
  Outer o = read(
      "{name: \"true\", count: 3, colour: blue, pair: [0.1, 1e-7], files: {path: \"a b: c\", length: 3}}");
  const std::string text = write_yaml(section.schema().print(&o));
  const Outer again = read(text);
  EXPECT_EQ(write_yaml(section.schema().print(&again)), text);
  EXPECT_EQ(again.name, "true");
  EXPECT_EQ(again.path, "a b: c");
}

TEST(Schema, ReferencePageNamesEveryField) {
  const auto section = testing_types::schema();
  const Outer defaults;
  const std::string page = reference_markdown(section.schema(), section.schema().print(&defaults), kForeign);
  for (const auto& field : section.schema().fields)
    EXPECT_THAT(page, HasSubstr("`" + split_path(field.path).back() + "`"));
  EXPECT_THAT(page, HasSubstr("1 to 10"));
  EXPECT_THAT(page, HasSubstr("old.*"));
}

class BaseFiles : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(directory_ / "presets"); }
  void put(const std::string& name, const std::string& text) { write_text(directory_ / name, text); }
  Outer load_file(const std::string& name, std::vector<std::string> overrides = {}) {
    return load<Outer>(testing_types::schema(), name, overrides, {directory_ / "presets", kForeign});
  }
  std::string error(const std::string& name) {
    try {
      load_file(name);
    } catch (const Error& e) {
      return e.what();
    }
    return "(no error)";
  }
  const TestFolder folder_;
  const fs::path directory_ = folder_.path();
};

TEST_F(BaseFiles, LaterFilesWin) {
  put("presets/small.yaml", "count: 1\ninner: {size: 5, rate: 0.1}\nfiles: {length: 4}\n");
  put("middle.yaml", "base: small\ncount: 2\nname: middle\n");
  put("top.yaml", "base: middle.yaml\ninner: {rate: 0.2, length: 6}\n");
  const Outer o = load_file((directory_ / "top.yaml").string(), {"name=cli"});
  EXPECT_EQ(o.count, 2);
  EXPECT_EQ(o.inner.size, 5);
  EXPECT_EQ(o.inner.rate, 0.2);
  EXPECT_EQ(o.length, 6) << "the other name of a shared value, given by a later file";
  EXPECT_EQ(o.name, "cli");
  EXPECT_EQ(load_file("small").count, 1);
}

TEST_F(BaseFiles, MissingAndCyclicBasesAreRefused) {
  put("presets/small.yaml", "count: 1\n");
  put("a.yaml", "base: smal\n");
  EXPECT_THAT(error((directory_ / "a.yaml").string()), AllOf(HasSubstr("a.yaml:1"), HasSubstr("'small'")));
  put("b.yaml", "base: c.yaml\n");
  put("c.yaml", "base: b.yaml\n");
  EXPECT_THAT(error((directory_ / "b.yaml").string()), HasSubstr("circular"));
  put("d.yaml", "base: [a]\n");
  EXPECT_THAT(error((directory_ / "d.yaml").string()), HasSubstr("expected a file"));
  EXPECT_THAT(error((directory_ / "none.yaml").string()), HasSubstr("no configuration file"));
  EXPECT_THAT(error((directory_ / "a=b.yaml").string()), HasSubstr("no configuration file"));
  EXPECT_THAT(error("size=3"), HasSubstr("'size=3' is given where the configuration is expected"));
}

}  // namespace
}  // namespace stoa::config
