#include "data/text_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iconv.h>
#include <zlib.h>
#include <zstd.h>

#include <memory>

#include "base/error.h"
#include "base/test_folder.h"
#include "data/byte_source.h"
#include "data/detect_encoding.h"
#include "data/test_files.h"
#include "data/utf8_scan.h"

namespace stoa::data {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string converted(std::string_view text, const char* to) {
  const iconv_t converter = ::iconv_open(to, "UTF-8");
  std::string out(4 * text.size() + 16, '\0');
  std::string in(text);
  char *from = in.data(), *target = out.data();
  std::size_t left = in.size(), room = out.size();
  EXPECT_EQ(::iconv(converter, &from, &left, &target, &room), 0u) << to;
  ::iconv_close(converter);
  out.resize(out.size() - room);
  return out;
}

class TextSource : public ::testing::Test {
 protected:
  std::string read(std::string_view bytes, std::string encoding = "auto", std::size_t piece = 1 << 16) {
    write_text(folder_ / "a.txt", bytes);
    notices_.clear();
    const auto source =
        open_text(folder_ / "a.txt",
                  {.name = std::move(encoding), .notice = [&](auto note) { notices_.emplace_back(note); }});
    std::string text, buffer(piece, '\0');
    while (const std::size_t got = source->read(buffer.data(), piece)) text.append(buffer, 0, got);
    return text;
  }
  std::string error_of(std::string_view bytes) {
    try {
      read(bytes);
    } catch (const DataError& e) {
      return e.what();
    }
    return "no error";
  }

  TestFolder folder_;
  std::vector<std::string> notices_;
};

const std::string kText =
    "Der Fluß: größer, weiter\n– für 5 € – Привет, 世界 🙂\n\nEnde\n";

TEST_F(TextSource, Utf8IsItself) {
  EXPECT_EQ(read(kText), kText);
  EXPECT_EQ(read("\xef\xbb\xbf" + kText), kText);
  EXPECT_EQ(read(""), "");
  EXPECT_EQ(read("a"), "a");
  EXPECT_THAT(notices_, IsEmpty());
  std::string long_text;
  while (long_text.size() < (1 << 20)) long_text += kText;
  for (const std::size_t piece : {1 << 16, 1 << 14, 4097, 7})
    EXPECT_EQ(read(long_text, "auto", piece), long_text);
}

TEST_F(TextSource, WideTextIsToldWithAndWithoutAMark) {
  std::string long_text;
  while (long_text.size() < 700'000) long_text += kText;
  for (const char* name : {"UTF-16LE", "UTF-16BE", "UTF-32LE", "UTF-32BE"}) {
    EXPECT_EQ(read(converted("\xef\xbb\xbf" + kText, name)), kText) << name;
    EXPECT_EQ(read(converted(kText, name)), kText) << name;
    EXPECT_EQ(read(converted(long_text, name), "auto", 4099), long_text) << name;
    ASSERT_EQ(notices_.size(), 1u);
    EXPECT_THAT(notices_[0], HasSubstr(std::string("is read as ") + name));
  }
}

TEST_F(TextSource, ZeroBytesBetweenRecordsMakeNoWideText) {
  std::string records;
  for (int i = 0; i < 100; ++i) records += std::string("a boat and the sea\0\n", 20);  // all at odd places
  EXPECT_EQ(read(records), records);
  EXPECT_EQ(read("a" + records), "a" + records);  // at even ones
  EXPECT_THAT(notices_, IsEmpty());
}

TEST_F(TextSource, OneByteEncodingsAreTold) {
  const std::string german =
      "Der Fluß war größer als früher, und die Bäume über ihm hießen Ärger – „so“ sagte er.\n";
  EXPECT_EQ(read(converted("Ein Café für 5 €\n", "WINDOWS-1252")), "Ein Café für 5 €\n");
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("is read as WINDOWS-1252 (--encoding overrides)")));
  std::string long_german;
  for (int i = 0; i < 50; ++i) long_german += german;
  EXPECT_EQ(read(converted(long_german, "WINDOWS-1252")), long_german);
  std::string russian;
  for (int i = 0; i < 20; ++i)
    russian +=
        "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему.\n";
  EXPECT_EQ(read(converted(russian, "KOI8-R")), russian);
  EXPECT_EQ(read(converted(russian, "WINDOWS-1251")), russian);
  std::string japanese;
  for (int i = 0; i < 20; ++i)
    japanese += "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。\n";
  EXPECT_EQ(read(converted(japanese, "SHIFT_JIS")), japanese);
  EXPECT_EQ(read("caf\xe9", "iso-8859-15"), "café");
}

TEST_F(TextSource, EncodingsOfEscapesAreTold) {
  EXPECT_EQ(read("\x1b$B9A$N\x1b(B boats\n"), "港の boats\n");
  EXPECT_EQ(read("\x1b[1mbold\x1b[0m\n"), "\x1b[1mbold\x1b[0m\n");  // colours of terminals
}

TEST_F(TextSource, WindowsLineEndsBecomeUnixOnes) {
  EXPECT_EQ(read("a\r\nb\r\n\r\nc\r\n"), "a\nb\n\nc\n");
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("Windows line endings as \"\\n\"")));
  EXPECT_EQ(read(converted("\xef\xbb\xbf"
                           "ä\r\nb\r\n",
                           "UTF-16LE")),
            "ä\nb\n");
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("is read as UTF-16LE, Windows line endings")));
  EXPECT_EQ(read("a\nb\nc\r\n\rd\n"), "a\nb\nc\r\n\rd\n") << "a few are content";
  std::string windows = "x\r\n", plain = "x\n";
  for (int i = 0; i < 200'000; ++i) windows += "line\r\n\r\r\n", plain += "line\n\r\n";
  EXPECT_EQ(read(windows), plain);
  EXPECT_EQ(read("a\r\nb\r"), "a\nb\r");
}

TEST_F(TextSource, WrongBytesAreNamedWithTheirPlace) {
  std::string text;
  while (text.size() < 600'000) text += kText;
  const std::size_t place = text.size();
  EXPECT_THAT(error_of(text + "\xe9t\xe9"),
              HasSubstr(fmt::format("a.txt' byte {}: 0xe9 is not UTF-8", place)));
  EXPECT_THAT(error_of(text + "\xf0\x9f"), HasSubstr(fmt::format("byte {}: 0xf0", place)));
  EXPECT_THAT(error_of(text + "\xed\xa0\x80"), HasSubstr(fmt::format("byte {}: 0xed", place)));
  EXPECT_THAT(error_of(converted(kText, "UTF-16LE") + "x"), HasSubstr("is not UTF-16LE"));
  EXPECT_EQ(read(text + "\xe9t\xe9", "bytes"), text + "\xe9t\xe9");
  EXPECT_THROW(read(text, "klingon"), ConfigError);
}

TEST(Utf8Scan, FollowsTheTableOfTheStandard) {
  EXPECT_EQ(scan_utf8("a\xc3\xa9").valid, 3u);
  for (const char* wrong :
       {"\xc0\x80", "\xe0\x9f\x80", "\xed\xa0\x80", "\xf0\x8f\x80\x80", "\xf4\x90\x80\x80", "\xff", "\x80"}) {
    EXPECT_EQ(scan_utf8(wrong).valid, 0u);
    EXPECT_FALSE(scan_utf8(wrong).truncated);
  }
  EXPECT_TRUE(scan_utf8("ab\xf0\x9f\x99").truncated);
}

// 100 MB of blanks in some KB.
// `zstd --long=31` and the like: a frame (RFC 8878) whose window is larger than the 128 MiB that decoders
// take by themselves, with one block that is stored as it is.
TEST_F(TextSource, ZstdFramesThatLookFarBackAreRead) {
  const std::string text = "from far back";
  std::string frame = "\x28\xb5\x2f\xfd"s + '\0' + static_cast<char>((28 - 10) << 3);
  frame += static_cast<char>(text.size() << 3 | 1);
  frame += "\0\0"s + text;
  write_text(folder_ / "a.zst", frame);
  std::string out(100, '\0');
  out.resize(open_bytes(folder_ / "a.zst")->read(out.data(), out.size()));
  EXPECT_EQ(out, text);
}

// As web archives have it: a skippable frame with the dictionary of all frames, itself compressed or not.
TEST_F(TextSource, ZstdFramesShareTheDictionaryThatTheFileBeginsWith) {
  const std::string dictionary = "the boats of the harbour leave in the morning",
                    text = dictionary + ", all of them";
  const auto compressed = [](const std::string& from, const std::string& with) {
    std::string out(::ZSTD_compressBound(from.size()), '\0');
    const std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> context(::ZSTD_createCCtx(),
                                                                          ::ZSTD_freeCCtx);
    out.resize(::ZSTD_compress_usingDict(context.get(), out.data(), out.size(), from.data(), from.size(),
                                         with.data(), with.size(), 3));
    return out;
  };
  for (const std::string& stored : {dictionary, compressed(dictionary, "")}) {
    const std::string head = "\x5d\x2a\x4d\x18"s + static_cast<char>(stored.size()) + "\0\0\0"s + stored;
    write_text(folder_ / "a.zst", head + compressed(text, dictionary) + compressed(text, dictionary));
    const auto source = open_bytes(folder_ / "a.zst");
    std::string all, piece(100, '\0');
    while (const std::size_t got = source->read(piece.data(), piece.size())) all.append(piece, 0, got);
    EXPECT_EQ(all, text + text);
    write_text(folder_ / "a.zst", head.substr(0, head.size() - 1));
    EXPECT_THROW(open_bytes(folder_ / "a.zst")->read(piece.data(), piece.size()), DataError);
  }
}

TEST_F(TextSource, CompressedDataThatGrowsAsNoTextDoesIsRefused) {
  const std::string blanks(100'000'000, ' ');
  std::string zstd(::ZSTD_compressBound(blanks.size()), '\0');
  zstd.resize(::ZSTD_compress(zstd.data(), zstd.size(), blanks.data(), blanks.size(), 1));
  write_text(folder_ / "bomb.txt.zst", zstd);
  const gzFile gzip = ::gzopen((folder_ / "bomb.txt.gz").c_str(), "wb6");
  ASSERT_EQ(::gzwrite(gzip, blanks.data(), static_cast<unsigned>(blanks.size())), std::ssize(blanks));
  ::gzclose(gzip);
  for (const char* name : {"bomb.txt.zst", "bomb.txt.gz"}) {
    const auto source = open_bytes(folder_ / name);
    std::string buffer(1 << 20, '\0');
    std::size_t read = 0;
    try {
      while (const std::size_t n = source->read(buffer.data(), buffer.size())) read += n;
      ADD_FAILURE() << name;
    } catch (const DataError& e) {
      EXPECT_THAT(e.what(), HasSubstr("more than 800 times"));
    }
    EXPECT_LE(read, kFreeGrowth) << name;
  }
}

}  // namespace
}  // namespace stoa::data
