#include "data/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zlib.h>
#include <zstd.h>

#include <csignal>
#include <limits>

#include "base/error.h"
#include "base/test_folder.h"
#include "data/indexed_dataset.h"
#include "data/test_files.h"

namespace stoa::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One id per byte: its value + 1; 0 ends a document.
class ByteEncoder final : public DocumentEncoder {
 public:
  explicit ByteEncoder(std::int32_t eod = 0, std::int64_t vocabulary = 257)
      : eod_(eod), vocabulary_(vocabulary) {}
  std::unique_ptr<Session> session() const override {
    struct Bytes final : Session {
      void encode(std::string_view text, std::vector<std::int32_t>& ids) override {
        for (const char c : text) ids.push_back(static_cast<unsigned char>(c) + 1);
      }
    };
    return std::make_unique<Bytes>();
  }
  std::int64_t vocabulary() const override { return vocabulary_; }
  std::int32_t eod_id() const override { return eod_; }
  std::string fingerprint() const override { return "bytes"; }

 private:
  std::int32_t eod_;
  std::int64_t vocabulary_;
};

std::string gzip(std::string_view text) {
  z_stream z{};
  deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&z, text.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(out.size() - z.avail_out);
  deflateEnd(&z);
  return out;
}

std::string zstd(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

class PrepareTest : public ::testing::Test {
 protected:
  TestFolder folder_;
  Console console_{Console::Level::kQuiet};
  PrepareOptions options_;
  ByteEncoder encoder_;

  fs::path put(const std::string& name, std::string_view text) {
    write_text(folder_ / name, text);
    return folder_ / name;
  }
  PrepareResult run(const std::vector<fs::path>& inputs) {
    options_.inputs = inputs;
    options_.output = folder_ / "out" / "corpus";
    return prepare(options_, encoder_, console_);
  }
  std::vector<std::string> documents() const {
    const IndexedDataset data(folder_ / "out" / "corpus");
    std::vector<std::string> out;
    for (std::int64_t d = 0; d < data.documents(); ++d) {
      std::string text;
      for (std::int64_t s = data.document_start(d); s < data.document_start(d + 1); ++s) {
        std::vector<std::int32_t> ids(static_cast<std::size_t>(data.length(s)));
        data.read(s, 0, ids);
        for (const auto id : ids) text += id == 0 ? '$' : static_cast<char>(id - 1);
      }
      out.push_back(text);
    }
    return out;
  }
  template <class E>
  std::string error_of(const std::vector<fs::path>& inputs) {
    try {
      run(inputs);
    } catch (const E& e) {
      EXPECT_TRUE(!fs::exists(folder_ / "out") || fs::is_empty(folder_ / "out"))
          << "something was left behind";
      return e.what();
    }
    ADD_FAILURE() << "no error";
    return {};
  }
};

TEST_F(PrepareTest, JsonLinesBecomeDocuments) {
  const auto result = run({put("a.jsonl",
                               "\xef\xbb\xbf{\"text\": \"ab\\n\\u00e9\", \"n\": [1, {\"text\": 2}]}\n"
                               "\n"
                               "  {\"id\": 7, \"text\": \"c\", \"text\": \"d\"}\r\n"
                               "{\"text\": \"\"}\n"
                               "{\"te\\u0078t\": \"\\ud83d\\ude00 \\ud83d \\\\ud83d\"}")});
  EXPECT_THAT(documents(), ElementsAre("ab\n\xc3\xa9$", "d$", "", "\xf0\x9f\x98\x80 \xef\xbf\xbd \\ud83d$"));
  EXPECT_EQ(result.empty_documents, 1);
  EXPECT_EQ(result.provenance.documents, 4);
  EXPECT_EQ(result.provenance.sequences, 3);
  EXPECT_EQ(result.dtype, TokenDtype::kUint16);
  const auto about = load_provenance(folder_ / "out" / "corpus");
  ASSERT_TRUE(about.has_value());
  EXPECT_EQ(about->tokenizer_fingerprint, "bytes");
  EXPECT_EQ(about->vocabulary, 257);
  EXPECT_EQ(about->eod_id, 0);
  EXPECT_TRUE(about->eod_appended);
  EXPECT_EQ(about->sources.at(0).name, "a.jsonl");
  EXPECT_EQ(about->tokens, result.provenance.tokens);
}

TEST_F(PrepareTest, OtherKeyWithoutEod) {
  options_.json_key = "content";
  options_.append_eod = false;
  run({put("a.jsonl", "{\"text\":\"no\",\"content\":\"yes\"}\n")});
  EXPECT_THAT(documents(), ElementsAre("yes"));
}

TEST_F(PrepareTest, LargeVocabularyIsStoredWide) {
  encoder_ = ByteEncoder(0, 65500);
  EXPECT_EQ(run({put("a.txt", "x")}).dtype, TokenDtype::kInt32);
  EXPECT_THAT(documents(), ElementsAre("x$"));
}

TEST_F(PrepareTest, TextFilesParagraphsAndLines) {
  const auto file = put("a.txt", "\n\none\ntwo\r\n\n\nthree\n \nfour");
  run({file, put("empty.txt", ""), put("b.md", "five\n")});
  EXPECT_THAT(documents(), ElementsAre("\n\none\ntwo\r\n\n\nthree\n \nfour$", "five\n$"));
  options_.read.text_split = TextSplit::kParagraph;
  run({file});
  EXPECT_THAT(documents(), ElementsAre("one\ntwo$", "three\n $", "four$"));
  options_.read.text_min_bytes = 12;
  run({file});
  EXPECT_THAT(documents(), ElementsAre("\n\none\ntwo$", "three\n \nfour$"));
  options_.read.text_min_bytes = 0;
  options_.read.text_split = TextSplit::kLine;
  run({file});
  EXPECT_THAT(documents(), ElementsAre("one$", "two$", "three\n $", "four$"));
}

std::string many_lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += fmt::format("{{\"id\": {}, \"text\": \"{} {}\"}}\n", i, i,
                        std::string(static_cast<std::size_t>(i * 7919 % 3000), 'x'));
  return text;
}

TEST_F(PrepareTest, TheNumberOfWorkersDoesNotShow) {
  const auto a = put("a.jsonl", many_lines(3000)), b = put("b.txt", "tail");
  run({a, b});
  const auto idx = read_text(folder_ / "out" / "corpus.idx"), bin = read_text(folder_ / "out" / "corpus.bin");
  EXPECT_GT(bin.size(), 8u * kBlockBytes);  // several blocks
  const auto all = documents();
  ASSERT_EQ(all.size(), 3001u);
  for (int i = 0; i < 3000; ++i)
    ASSERT_TRUE(all[static_cast<std::size_t>(i)].starts_with(fmt::format("{} ", i)));
  for (const int workers : {2, 5}) {
    options_.workers = workers;
    run({a, b});
    EXPECT_EQ(read_text(folder_ / "out" / "corpus.idx"), idx);
    EXPECT_EQ(read_text(folder_ / "out" / "corpus.bin"), bin);
  }
}

TEST_F(PrepareTest, CutTextDoesNotDependOnBlocks) {
  options_.read.text_split = TextSplit::kParagraph;
  std::string text;
  std::vector<std::string> expected;
  for (int i = 0; i < 4000; ++i) {
    const std::string paragraph =
        fmt::format("{} {}", i, std::string(static_cast<std::size_t>(i * 7919 % 2000), 'y'));
    text += paragraph + (i % 3 ? "\n\n" : "\n\r\n\n");
    expected.push_back(paragraph + "$");
  }
  run({put("a.txt", text)});
  EXPECT_EQ(documents(), expected);
}

TEST_F(PrepareTest, OneLineLongerThanABlock) {
  run({put("a.jsonl", "{\"text\": \"" + std::string(3 * kBlockBytes + 5, 'z') + "\"}\n{\"text\": \"end\"}")});
  const auto all = documents();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].size(), 3 * kBlockBytes + 6);
  EXPECT_EQ(all[1], "end$");
}

TEST_F(PrepareTest, ReadsCompressedFiles) {
  const std::string lines = many_lines(2000);
  run({put("a.jsonl", lines)});
  const auto bin = read_text(folder_ / "out" / "corpus.bin");
  run({put("a.jsonl.gz", gzip(lines))});
  EXPECT_EQ(read_text(folder_ / "out" / "corpus.bin"), bin);
  run({put("a.jsonl.zst", zstd(lines))});
  EXPECT_EQ(read_text(folder_ / "out" / "corpus.bin"), bin);
  const auto half = lines.find('\n', lines.size() / 2) + 1;  // members and frames one after the other
  run({put("b.jsonl.gz", gzip(lines.substr(0, half)) + gzip(lines.substr(half)) + std::string(512, '\0'))});
  EXPECT_EQ(read_text(folder_ / "out" / "corpus.bin"), bin);
  run({put("b.jsonl.zst", zstd(lines.substr(0, half)) + zstd(lines.substr(half)))});
  EXPECT_EQ(read_text(folder_ / "out" / "corpus.bin"), bin);
}

TEST_F(PrepareTest, DamagedCompressedFilesAreRefused) {
  const std::string lines = many_lines(300);
  const std::string z = gzip(lines), s = zstd(lines);
  for (const std::size_t size : {std::size_t{0}, std::size_t{5}, z.size() / 2, z.size() - 1})
    EXPECT_THAT(error_of<DataError>({put("a.jsonl.gz", z.substr(0, size))}), HasSubstr("truncated")) << size;
  for (const std::size_t size : {std::size_t{0}, std::size_t{3}, s.size() / 2, s.size() - 1})
    EXPECT_THAT(error_of<DataError>({put("a.jsonl.zst", s.substr(0, size))}), HasSubstr("truncated")) << size;
  EXPECT_THAT(error_of<DataError>({put("a.jsonl.gz", lines)}), HasSubstr("not valid gzip"));
  EXPECT_THAT(error_of<DataError>({put("a.jsonl.zst", lines)}), HasSubstr("not valid zstd"));
  std::string wrong = z;
  wrong[wrong.size() - 6] ^= 1;  // the checksum of the member
  EXPECT_THAT(error_of<DataError>({put("a.jsonl.gz", wrong)}), HasSubstr("not valid gzip"));
}

TEST_F(PrepareTest, BadLinesAreNamed) {
  const std::string good = "{\"text\": \"a\"}\n";
  const auto message = [&](std::string_view line) {
    return error_of<DataError>({put("a.jsonl", good + good + std::string(line) + "\n" + good)});
  };
  for (const char* line :
       {"{\"text\": \"a\"", "{\"text\": \"a}", "{\"text\": \"a\"} x", "{\"text\": \"a\", 1}", "nonsense",
        "{\"text\": \"\\x\"}", "{\"text\": \"a\nb\"}", "{\"text\": \"\\u12\"}"}) {
    const auto text = message(line);
    EXPECT_THAT(text, HasSubstr("a.jsonl' line 3")) << line;
    EXPECT_THAT(text, HasSubstr("not valid JSON")) << line;
  }
  EXPECT_THAT(message("{\"Text\": \"a\", \"n\": 1}"),
              HasSubstr("no key \"text\" (did you mean 'Text'?); its keys: Text, n"));
  EXPECT_THAT(message("{\"text\": 3}"), HasSubstr("is a number"));
  EXPECT_THAT(message("{\"text\": null}"), HasSubstr("is null"));
  EXPECT_THAT(message("[1]"), HasSubstr("expected a JSON object"));
  options_.workers = 4;  // of many bad lines the first is named, whoever meets it
  std::string lines = many_lines(3000);
  for (std::size_t at = lines.size() / 2; at < lines.size(); at += 100000)
    lines.replace(lines.find('\n', at) + 1, 1, "[");
  const auto first = error_of<DataError>({put("b.jsonl", lines)});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(error_of<DataError>({folder_ / "b.jsonl"}), first);
}

TEST_F(PrepareTest, BadInputsAreNamed) {
  EXPECT_THAT(error_of<IoError>({folder_ / "none.jsonl"}), HasSubstr("no input file"));
  EXPECT_THAT(error_of<IoError>({folder_.path()}), HasSubstr("is a directory"));
  EXPECT_THAT(error_of<ConfigError>({put("a.bin", "x")}), HasSubstr("cannot tell the form"));
  EXPECT_THAT(error_of<ConfigError>({}), HasSubstr("no input files"));
  EXPECT_THAT(error_of<DataError>({put("e.jsonl", "")}), HasSubstr("corpus is empty"));
  EXPECT_THAT(error_of<DataError>({put("e.jsonl", "\n{\"text\":\"\"}\n")}), HasSubstr("corpus is empty"));
  encoder_ = ByteEncoder(-1);
  EXPECT_THAT(error_of<ConfigError>({put("a.txt", "x")}), HasSubstr("no end-of-document token"));
}

TEST_F(PrepareTest, IdsBeyondTheVocabularyAreRefused) {
  encoder_ = ByteEncoder(0, 99);  // "a" is its last id
  EXPECT_THAT(error_of<InternalError>({put("a.txt", "aaaaaaaab")}),
              HasSubstr("id 99 with a vocabulary of 99"));
  EXPECT_THAT(error_of<InternalError>({put("a.txt", "aaaaaaaa\xc3\xbf")}), HasSubstr("id 196"));
  run({put("a.txt", "aaaaaaaaa")});
  EXPECT_THAT(documents(), ElementsAre("aaaaaaaaa$"));
  fs::remove_all(folder_ / "out");
  encoder_ = ByteEncoder(std::numeric_limits<std::int32_t>::max(), 1000);
  EXPECT_THAT(error_of<InternalError>({put("a.txt", "a")}), HasSubstr("id 2147483647"));
}

TEST_F(PrepareTest, AFailureKeepsTheOldResult) {
  run({put("a.txt", "old")});
  EXPECT_THROW(run({put("b.jsonl", "nonsense")}), DataError);
  EXPECT_THAT(documents(), ElementsAre("old$"));
}

TEST_F(PrepareTest, DiskFullIsAnErrorWithoutTrace) {
  std::signal(SIGXFSZ, SIG_IGN);
  const auto input = put("a.jsonl", many_lines(2000));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit limit = before;
  limit.rlim_cur = 2 << 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto text = error_of<IoError>({input});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(text, HasSubstr("corpus.bin"));
}

TEST_F(PrepareTest, StopsWhenAsked) {
  std::stop_source stop;
  stop.request_stop();
  options_.inputs = {put("a.txt", "x")};
  options_.output = folder_ / "out" / "deep" / "corpus";
  EXPECT_THROW(prepare(options_, encoder_, console_, stop.get_token()), Interrupted);
  EXPECT_FALSE(fs::exists(folder_ / "out"));  // folders that it made go, too
  fs::create_directory(folder_ / "out");
  EXPECT_THROW(prepare(options_, encoder_, console_, stop.get_token()), Interrupted);
  EXPECT_TRUE(fs::is_empty(folder_ / "out"));  // but not one that was there
}

TEST_F(PrepareTest, MeasuresTheEncoder) {
  options_.inputs = {put("a.jsonl", "{\"text\": \"abc\"}\n{\"text\": \"de\"}\n")};
  const auto rate = measure_encoder(options_, encoder_);
  EXPECT_EQ(rate.text_bytes, 5u);
  EXPECT_EQ(rate.tokens, 5);
}

}  // namespace
}  // namespace stoa::data
