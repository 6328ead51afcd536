// Rows of files that pyarrow wrote (tests/oracle/make_parquet_fixtures.py).
#include "formats/parquet/row_reader.h"

#include <gmock/gmock.h>

#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/test_paths.h"
#include "formats/test_rows.h"

namespace stoa::parquet {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const fs::path kParquetFolder = test::source_dir() / "tests/fixtures/parquet";

std::string refusal(std::string_view file) { return test::refusal<RowReader>(file, "x.parquet"); }

TEST(Parquet, EveryCodecVersionAndEncodingGivesTheSameRows) {
  const auto expected = test::lines_of(read_text(kParquetFolder / "rows.jsonl"));
  ASSERT_EQ(expected.size(), 40u);
  int files = 0;
  for (const auto& entry : fs::directory_iterator(kParquetFolder)) {
    if (entry.path().extension() != ".parquet" || entry.path().stem() == "empty" ||
        entry.path().stem() == "chats")
      continue;
    ++files;
    const auto rows = test::lines_of(test::all_rows<RowReader>(read_text(entry.path()), "x.parquet"));
    ASSERT_EQ(rows.size(), expected.size()) << entry.path();
    for (std::size_t i = 0; i < rows.size(); ++i)
      EXPECT_EQ(rows[i].dump(1), expected[i].dump(1)) << entry.path() << " row " << i;
  }
  EXPECT_EQ(files, 14);
}

TEST(Parquet, AFileWithoutRowsIsReadAndItsPositionIsItsEnd) {
  const std::string file = read_text(kParquetFolder / "empty.parquet");
  RowReader reader(file, "empty.parquet");
  std::string out;
  EXPECT_FALSE(reader.next(out));
  EXPECT_EQ(out, "");
  EXPECT_EQ(reader.position(), file.size());
}

TEST(Parquet, WhatIsNoParquetFileIsNamed) {
  EXPECT_THAT(refusal("{\"text\": 1}"), StartsWith("'x.parquet': no Parquet file"));
  EXPECT_THAT(refusal("PAR1"), HasSubstr("is it complete?"));
  EXPECT_THAT(refusal(std::string("PAR1\xff\xff\xff\x7fPAR1")), HasSubstr("a footer of 2147483647 bytes"));
  EXPECT_THAT(refusal("PAR1............PARE"), HasSubstr("encrypted"));
}

TEST(Parquet, TruncatedFilesAreRefused) {
  const std::string file = read_text(kParquetFolder / "snappy-1.0.parquet");
  for (const std::size_t size : {std::size_t{0}, std::size_t{11}, file.size() / 2, file.size() - 1})
    EXPECT_THAT(refusal(std::string_view(file).substr(0, size)), StartsWith("'x.parquet': ")) << size;
  // The middle is missing: the footer speaks of bytes that are not there.
  EXPECT_NE(refusal(file.substr(0, 200) + file.substr(file.size() - 9000)), "read");
}

TEST(Parquet, AFlippedBitOfAPageIsFound) {
  std::string file = read_text(kParquetFolder / "zstd-1.0.parquet");
  int found = 0, tried = 0;
  for (std::size_t at = 4; at < 8000; at += 197, ++tried) {
    file[at] = static_cast<char>(file[at] ^ 4);
    found += refusal(file) != "read";
    file[at] = static_cast<char>(file[at] ^ 4);
  }
  EXPECT_GT(found, tried / 2);  // pages are small here, and headers carry statistics, which nobody reads
}

// Column chunks that begin where another begins, at the footer, or before the data: offsets only lead on.
TEST(Parquet, OffsetsThatLeadBackEnd) {
  const std::string file = read_text(kParquetFolder / "none-1.0.parquet");
  std::uint32_t length = 0;
  std::memcpy(&length, file.data() + file.size() - 8, sizeof length);
  int refused = 0;
  for (std::size_t at = file.size() - 8 - length; at < file.size() - 8; at += 29) {
    std::string changed = file;
    changed[at] = 8;  // the offset 4, in zigzag
    refused += refusal(changed) != "read";
  }
  EXPECT_GT(refused, 10);
}

TEST(Parquet, PagesDoNotGrowBeyondWhatTheyAnnounce) {
  std::string out;
  // 64 literal bytes where 10 are announced, and the other way round.
  EXPECT_THROW(
      decompress_page(std::string("\x0a\xf0\x3f", 3) + std::string(64, 'a'), Codec::kSnappy, 10, out),
      DataError);
  EXPECT_THROW(decompress_page(std::string("\x0a\x00z", 3), Codec::kSnappy, 10, out), DataError);
  EXPECT_THROW(decompress_page("", Codec::kNone, std::uint64_t{1} << 40, out), DataError);
  EXPECT_THROW(decompress_page("x", Codec::kLzo, 1, out), DataError);
  decompress_page(std::string("\x0a\x00z\x22\x01\x00", 6), Codec::kSnappy, 10, out);  // overlapping copy
  EXPECT_EQ(out, "zzzzzzzzzz");
}

}  // namespace
}  // namespace stoa::parquet
