// Rows of files that pyarrow wrote (tests/oracle/make_parquet_fixtures.py).
#include "formats/parquet/row_reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <zlib.h>

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

TEST(Parquet, WhatFastparquetWritesIsRead) {
  for (const char* codec : {"lz4", "gzip"}) {
    const std::string file = read_text(kParquetFolder / fmt::format("others/fastparquet-{}.parquet", codec));
    const auto rows = test::lines_of(test::all_rows<RowReader>(file, "x.parquet"));
    ASSERT_EQ(rows.size(), 6u) << codec;
    EXPECT_EQ(rows[5].dump(), R"({"text":"boat 5 of the harbour","number":5,"share":1.25})") << codec;
    EXPECT_TRUE(rows[2]["share"].is_null()) << codec;
  }
}

TEST(Parquet, DecimalsOfAnySizeKeepAllDigits) {
  const std::string rows =
      test::all_rows<RowReader>(read_text(kParquetFolder / "others/decimals.parquet"), "x.parquet");
  EXPECT_EQ(rows,
            "{\"d\":0.000}\n{\"d\":-1.000}\n"
            "{\"d\":12345678901234567890123456789012345678901234567890.123}\n"
            "{\"d\":-99999999999999999999.999}\n");
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

// lz4 of "zzzzzzzzzz": a literal, a copy of nine from one before it, which an empty sequence ends.
TEST(Parquet, LZ4OfHadoopIsBlocksOfPieces) {
  const std::string piece("\x15z\x01\x00\x00", 5);
  const auto size = [](char n) { return std::string(3, '\0') + n; };
  std::string out;
  decompress_page(size(10) + size(5) + piece, Codec::kHadoopLz4, 10, out);
  EXPECT_EQ(out, "zzzzzzzzzz");
  decompress_page(size(20) + size(5) + piece + size(5) + piece + size(10) + size(5) + piece,
                  Codec::kHadoopLz4, 30, out);
  EXPECT_EQ(out, std::string(30, 'z'));
  decompress_page(piece, Codec::kHadoopLz4, 10, out);  // without sizes
  EXPECT_EQ(out, "zzzzzzzzzz");
  EXPECT_THROW(decompress_page(size(11) + size(5) + piece, Codec::kHadoopLz4, 10, out), DataError);
}

// Two members, of "ab" and of "c".
TEST(Parquet, PagesOfSeveralGzipMembersAreRead) {
  const std::string two = [] {
    std::string bytes;
    for (const std::string text : {"ab", "c"}) {
      z_stream stream{};
      EXPECT_EQ(::deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
      std::string member(100, '\0');
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
      stream.avail_in = static_cast<uInt>(text.size());
      stream.next_out = reinterpret_cast<Bytef*>(member.data());
      stream.avail_out = static_cast<uInt>(member.size());
      EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
      bytes.append(member, 0, member.size() - stream.avail_out);
      ::deflateEnd(&stream);
    }
    return bytes;
  }();
  std::string out;
  decompress_page(two, Codec::kGzip, 3, out);
  EXPECT_EQ(out, "abc");
}

}  // namespace
}  // namespace stoa::parquet
