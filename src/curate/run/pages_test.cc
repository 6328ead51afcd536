// Web archives and pages through a pipeline.
#include <gmock/gmock.h>
#include <zlib.h>
#include <zstd.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/test_folder.h"
#include "curate/run/run.h"
#include "data/test_files.h"

namespace stoa::curate {
namespace {

using ::testing::_;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;

std::string page(const std::string& name) {
  return "<html><head><title>Of " + name + "</title></head><body><nav><a href=/>home</a></nav><p>the " +
         name + " page has more than enough words for it</p></body></html>";
}

// `bits`: of zlib's window; + 16: gzip, negative: without a header.
std::string deflated(const std::string& text, int bits) {
  z_stream stream{};
  EXPECT_EQ(::deflateInit2(&stream, 9, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(text.size() + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

std::string record(const std::string& type, const std::string& id, const std::string& content,
                   const std::string& more = "") {
  return fmt::format(
      "WARC/1.0\r\nWARC-Type: {}\r\nWARC-Target-URI: http://x/{}\r\nWARC-Record-ID: "
      "<urn:uuid:{}>\r\nWARC-Date: 2026-01-02T03:04:05Z\r\n"
      "{}Content-Length: {}\r\n\r\n{}\r\n\r\n",
      type, id, id, more, content.size(), content);
}
std::string answer(const std::string& id, const std::string& headers, const std::string& body,
                   const std::string& status = "200 OK") {
  return record("response", id, "HTTP/1.1 " + status + "\r\n" + headers + "\r\n\r\n" + body);
}

class Pages : public ::testing::Test {
 protected:
  Pages() {
    fs::create_directories(folder_ / "in");
    write_text(folder_ / "pipeline.yaml",
               "shard_bytes: 300\nstages:\n  - gopher_quality: {min_doc_words: 6, min_stop_words: 1}\n");
  }
  // Documents by id: of kept ones the text, of others the reason.
  std::map<std::string, std::string> run(const std::string& output, int workers = 1) {
    Console quiet(Console::Level::kQuiet);
    result_ = run_pipeline(read_pipeline(folder_ / "pipeline.yaml"),
                           {{folder_ / "in"}, folder_ / output, workers}, quiet);
    std::map<std::string, std::string> documents;
    all_.clear();
    for (const char* kind : {"kept", "dropped", "quarantine"}) {
      if (!fs::exists(folder_ / output / kind)) continue;
      for (const auto& entry : fs::directory_iterator(folder_ / output / kind)) {
        std::istringstream lines(read_text(entry.path()));
        for (std::string line; std::getline(lines, line);) {
          const auto row = nlohmann::json::parse(line);
          documents[row["id"]] = row.contains("reason")
                                     ? std::string(kind) + ": " + row["reason"].get<std::string>()
                                     : row["text"].get<std::string>();
          rows_[row["id"]] = row;
          all_ += line + entry.path().filename().string();
        }
      }
    }
    return documents;
  }

  TestFolder folder_;
  RunResult result_;
  std::string all_;
  std::map<std::string, nlohmann::json> rows_;
};

TEST_F(Pages, BodiesOfAllCodingsAreRead) {
  const std::string zstd = [] {
    const std::string text = page("zstd");
    std::string out(1000, '\0');
    out.resize(::ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
    return out;
  }();
  const std::string brotli(
      "\x1b\x51\x00\xe8\x8d\xd4\x61\xcd\x9d\x07\xd2\x1d\x5e\xef\xae\x63\xba\xfe\x22\x8a\x28\x59\xbc\x80\x43"
      "\x0e\x5c\x7e\x6a\x1e\x88\x07\x18\x6c\xc0\xb1\x46\xe1\xb6\xbd\xc3\x19\x8c\x7c\x9e\xa9\x12\xf1\xab\xe9"
      "\x4c\x68\x79\x69\x85\x11\x9c\x44\x86\x16\xcf\x00",
      62);
  std::string chunked;
  for (const std::string& piece : {page("chunked").substr(0, 30), page("chunked").substr(30)})
    chunked += fmt::format("{:x};x=y\r\n{}\r\n", piece.size(), piece);
  chunked += "0\r\n\r\n";
  const std::string html = "Content-Type: text/html; charset=utf-8\r\n";
  std::string archive =
      record("warcinfo", "info", "software: x") + record("request", "request", "GET / HTTP/1.1\r\n\r\n") +
      answer("plain", "Content-Type: text/html", page("plain")) +
      answer("chunked", html + "Transfer-Encoding: chunked", chunked) +
      answer("gzip", html + "Content-Encoding: gzip", deflated(page("gzip"), 15 + 16)) +
      answer("zlib", html + "content-encoding: deflate", deflated(page("zlib"), 15)) +
      answer("raw", html + "content-encoding: deflate", deflated(page("raw"), -15)) +
      answer("brotli", html + "Content-Encoding: br", brotli) +
      answer("zstd", html + "Content-Encoding: zstd", zstd) +
      answer("decoded", html + "Content-Encoding: gzip\r\nTransfer-Encoding: chunked", page("decoded")) +
      answer("latin", "Content-Type: text/html; charset=iso-8859-1", page("caf\xe9")) +
      answer("missing", html, page("missing"), "404 Not Found") +
      answer("image", "Content-Type: image/png", "\x89PNG") + answer("menu", html, "<nav>one</nav>") +
      answer("cut", html + "Content-Encoding: gzip", deflated(page("cut"), 31).substr(0, 60)) +
      answer("corrupt", html + "Content-Encoding: gzip", "\x1f\x8b\x08\xff" + std::string(50, 'x')) +
      answer("text", "Content-Type: text/plain", "the text page has more than enough words for it") +
      record("resource", "resource", page("resource"), "Content-Type: text/html\r\n") +
      record("revisit", "revisit", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n");
  write_text(folder_ / "in/a.warc", archive);
  const auto documents = run("out");
  for (const char* id : {"plain", "chunked", "gzip", "zlib", "raw", "brotli", "zstd", "decoded", "resource"})
    EXPECT_EQ(documents.at(id), fmt::format("the {} page has more than enough words for it\n", id));
  EXPECT_EQ(documents.at("latin"), "the café page has more than enough words for it\n");
  EXPECT_EQ(documents.at("text"), "the text page has more than enough words for it");
  EXPECT_EQ(documents.at("missing"), "dropped: input/http_status");
  EXPECT_EQ(documents.at("image"), "dropped: input/no_page");
  EXPECT_EQ(documents.at("menu"), "dropped: input/no_main_text");
  EXPECT_THAT(documents, Contains(Pair(_, HasSubstr("quarantine: its compressed body is corrupt"))));
  EXPECT_EQ(documents.count("revisit") + documents.count("request") + documents.count("info"), 0U);
  EXPECT_EQ(documents.count("cut"), 1U);
  EXPECT_EQ(rows_["plain"]["title"], "Of plain");
  EXPECT_EQ(rows_["plain"]["url"], "http://x/plain");
  EXPECT_EQ(rows_["plain"]["date"], "2026-01-02T03:04:05Z");
}

TEST_F(Pages, CompressedBodiesOfAnyLengthAreBounded) {
  write_text(folder_ / "in/a.warc", answer("bomb", "Content-Type: text/html\r\nContent-Encoding: gzip",
                                           deflated(std::string(80 << 20, ' '), 31)) +
                                        answer("plain", "Content-Type: text/html", page("plain")));
  EXPECT_THAT(run("out"), Contains(Pair(_, HasSubstr("quarantine: a page of more than 67108864 bytes"))));
}

TEST_F(Pages, SameBytesForAnyNumberOfWorkersAndMembers) {
  std::string plain, members;
  for (int i = 0; i < 150; ++i) {
    const std::string one = answer(fmt::format("p{}", i), "Content-Type: text/html", page(std::to_string(i)));
    plain += one;
    members += deflated(one, 31);
  }
  write_text(folder_ / "in/a.warc.gz", members);
  run("one", 1);
  const std::string expected = all_;
  EXPECT_EQ(result_.flow.kept.documents, 150);
  for (const int workers : {2, 7}) {
    run(fmt::format("out{}", workers), workers);
    EXPECT_EQ(all_, expected);
  }
  fs::remove(folder_ / "in/a.warc.gz");
  write_text(folder_ / "in/a.warc", plain);
  run("plain", 3);
  EXPECT_EQ(all_, expected);
}

TEST_F(Pages, FilesInFoldersAreExtractedAsTheKeysSay) {
  write_text(folder_ / "in/a.html", "<meta charset=latin1>" + page("caf\xe9"));
  write_text(folder_ / "in/b.htm", page("second"));
  EXPECT_EQ(run("out").at("a.html:1"), "the café page has more than enough words for it\n");
  EXPECT_EQ(rows_["b.htm:1"]["title"], "Of second");
  write_text(folder_ / "words", "the\nfor\n");
  write_text(folder_ / "pipeline.yaml", "input: {main_text: justext, stop_words: '" +
                                            (folder_ / "words").string() +
                                            "'}\nallow_empty: true\nstages: [c4_quality]");
  EXPECT_EQ(run("justext").at("b.htm:1"), "dropped: input/no_main_text");
  write_text(folder_ / "pipeline.yaml",
             "input: {main_text: all}\nstages: [{gopher_quality: {min_doc_words: 6, min_stop_words: 1}}]");
  EXPECT_EQ(run("all").at("b.htm:1"), "home\n\nthe second page has more than enough words for it\n");
}

}  // namespace
}  // namespace stoa::curate
