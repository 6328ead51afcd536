// Rows of files that pyarrow wrote (tests/oracle/make_arrow_fixtures.py).
#include "formats/arrow/row_reader.h"

#include <gmock/gmock.h>

#include "base/file.h"
#include "base/test_paths.h"
#include "formats/test_rows.h"

namespace stoa::arrow {
namespace {

using ::testing::HasSubstr;

std::string arrow_file(const std::string& name) {
  return read_text(test::source_dir() / "tests/fixtures/arrow" / (name + ".arrow"));
}

std::vector<nlohmann::ordered_json> arrow_rows(const std::string& file) {
  return test::lines_of(test::all_rows<RowReader>(file, "x.arrow"));
}

std::string arrow_refusal(const std::string& file) { return test::refusal<RowReader>(file, "x.arrow"); }

TEST(Arrow, EveryFormGivesTheRowsThatParquetGives) {
  const auto expected = test::lines_of(read_text(test::source_dir() / "tests/fixtures/parquet/rows.jsonl"));
  ASSERT_EQ(expected.size(), 40U);
  for (const char* name : {"stream", "file", "zstd", "old_form", "large", "views"}) {
    const auto rows = arrow_rows(arrow_file(name));
    ASSERT_EQ(rows.size(), expected.size()) << name;
    for (std::size_t i = 0; i < rows.size(); ++i)
      EXPECT_EQ(rows[i].dump(1), expected[i].dump(1)) << name << " row " << i;
  }
}

TEST(Arrow, DictionariesGrowAndFilesMayBeEmpty) {
  std::string labels;
  for (const auto& row : arrow_rows(arrow_file("growing"))) labels += row["label"].get<std::string>() + " ";
  EXPECT_EQ(labels, "yes yes no yes no perhaps ");
  EXPECT_TRUE(arrow_rows(arrow_file("empty")).empty());
}

TEST(Arrow, WhatCannotBeReadIsNamed) {
  EXPECT_THAT(arrow_refusal(arrow_file("lz4")),
              HasSubstr("x.arrow: is compressed with LZ4, which is not read"));
  EXPECT_THAT(arrow_refusal(arrow_file("union")), HasSubstr("the column 'u' is of Arrow's type 14"));
  EXPECT_THAT(arrow_refusal("{\"a\": 1}\n"), HasSubstr("no Arrow data"));
  EXPECT_THAT(arrow_refusal(""), HasSubstr("x.arrow: "));
  const std::string whole = arrow_file("stream");
  EXPECT_THAT(arrow_refusal(whole.substr(0, whole.size() / 2)), HasSubstr("truncated"));
}

}  // namespace
}  // namespace stoa::arrow
