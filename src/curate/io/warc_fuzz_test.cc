// Headers of archives from anywhere: read or refused, with views inside the text.
#include "base/test_folder.h"
#include "curate/io/http.h"
#include "curate/io/warc.h"

#ifndef STOA_LIBFUZZER
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <zlib.h>

#include "data/test_files.h"
#endif

#include "base/error.h"

namespace stoa::curate {
namespace {

void read_any_headers(std::string_view text) {
  WarcHeaders headers;
  try {
    if (!read_warc_headers(text, headers)) return;
  } catch (const DataError&) {
    return;
  }
  for (const std::string_view view :
       {headers.type, headers.id, headers.uri, headers.date, headers.content_type, headers.payload_type})
    if (!view.empty() && (view.data() < text.data() || view.data() + view.size() > text.data() + text.size()))
      __builtin_trap();
  if (headers.bytes > text.size()) __builtin_trap();
}

void read_any_answer(std::string_view text) {
  HttpAnswer answer;
  try {
    read_http_answer(text, answer);
  } catch (const DataError&) {
  }
}

}  // namespace
}  // namespace stoa::curate

#ifdef STOA_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  stoa::curate::read_any_headers({reinterpret_cast<const char*>(data), size});
  stoa::curate::read_any_answer({reinterpret_cast<const char*>(data), size});
  return 0;
}
#else
namespace stoa::curate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string warc_record(const std::string& type, const std::string& uri, const std::string& content,
                        const std::string& length = "") {
  return "WARC/1.0\r\nWARC-Type: " + type + "\r\nWARC-Target-URI: " + uri +
         "\r\nWARC-Date: 2026-01-02T03:04:05Z\r\nWARC-Record-ID: <urn:uuid:" + uri +
         ">\r\ncontent-length: " + (length.empty() ? std::to_string(content.size()) : length) + "\r\n\r\n" +
         content + "\r\n\r\n";
}

TEST(Warc, RecordsFollowOneAnother) {
  const TestFolder folder;
  const std::string big(300'000, 'x');
  write_text(folder / "a.wet", warc_record("warcinfo", "", "a: b") +
                                   warc_record("conversion", "http://a", "text\n") +
                                   warc_record("conversion", "http://b", big));
  WarcReader reader(folder / "a.wet");
  WarcHeaders headers;
  std::string_view content;
  ASSERT_TRUE(reader.next(headers, content));
  EXPECT_EQ(headers.type, "warcinfo");
  ASSERT_TRUE(reader.next(headers, content));
  EXPECT_EQ(headers.uri, "http://a");
  EXPECT_EQ(headers.id, "<urn:uuid:http://a>");
  EXPECT_EQ(content, "text\n");
  ASSERT_TRUE(reader.next(headers, content));
  EXPECT_EQ(content, big);
  EXPECT_FALSE(reader.next(headers, content));
}

TEST(Warc, LiesAreRefused) {
  const TestFolder folder;
  const auto said = [&](const std::string& text) {
    write_text(folder / "a.wet", text);
    WarcReader reader(folder / "a.wet");
    WarcHeaders headers;
    std::string_view content;
    try {
      while (reader.next(headers, content)) {
      }
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(said("hello\n"), HasSubstr("no WARC record"));
  EXPECT_THAT(said(warc_record("conversion", "x", "abc", "1000")), HasSubstr("1000 bytes is announced"));
  EXPECT_THAT(said(warc_record("conversion", "x", "abc", "99999999999")), HasSubstr("is announced"));
  EXPECT_THAT(said(warc_record("conversion", "x", "abc", "-1")), HasSubstr("without a Content-Length"));
  EXPECT_THAT(said(warc_record("conversion", "x", "abc", "1")),
              HasSubstr("no WARC record"));  // what follows is no record
  EXPECT_THAT(said("WARC/1.0\r\nWARC-Type: conversion\r\n"), HasSubstr("within the headers"));
  EXPECT_THAT(said("WARC/1.0\r\n" + std::string(200'000, 'x')), HasSubstr("headers of more than"));
  EXPECT_EQ(said(""), "no error");
}

// Programs that count line ends wrongly, and files that were mended by hand.
TEST(Warc, AfterDamageTheNextRecordIsFound) {
  const TestFolder folder;
  const std::string good = warc_record("conversion", "http://b", "text\n");
  const auto types = [&](const std::string& text, std::uint64_t longest = WarcReader::kLongestRecord) {
    write_text(folder / "a.warc", text);
    WarcReader reader(folder / "a.warc", longest);
    WarcHeaders headers;
    std::string_view content;
    std::vector<std::string> out;
    while (reader.next(headers, content)) out.push_back(fmt::format("{} {}", headers.type, content.size()));
    return out;
  };
  EXPECT_THAT(types(warc_record("conversion", "http://a", "abc", "1") + good),
              ElementsAre("conversion 1", "damage 6", "conversion 5"));
  EXPECT_THAT(types(good + "WARC/1.0\r\nContent-Length: no\r\n\r\nabc\r\n" + good),
              ElementsAre("conversion 5", "damage 37", "conversion 5"));
  const std::string long_damage(300'000, 'x');
  EXPECT_THAT(types(good + long_damage + "\n" + good),
              ElementsAre("conversion 5", "damage 65536", "conversion 5"));
  // Videos: what a page may have, and one byte, is enough to tell that it is too much.
  EXPECT_THAT(types(warc_record("response", "http://v", long_damage) + good, 1000),
              ElementsAre("response 1001", "conversion 5"));
}

// A flipped bit costs its member, which is one record.
TEST(Warc, CorruptMembersAreLeftOut) {
  const TestFolder folder;
  const fs::path file = folder / "a.warc.gz";
  std::vector<std::uintmax_t> ends;
  for (const char* name : {"http://a", "http://b", "http://c"}) {
    const std::string record = warc_record("conversion", name, std::string("the text of ") + name);
    const gzFile out = ::gzopen(file.c_str(), "ab");  // a member more
    ::gzwrite(out, record.data(), static_cast<unsigned>(record.size()));
    ::gzclose(out);
    ends.push_back(fs::file_size(file));
  }
  const std::string good = read_text(file);
  const auto uris = [&](std::size_t damaged) {
    std::string bytes = good;
    bytes[damaged] = static_cast<char>(bytes[damaged] ^ 0x55);
    write_text(file, bytes);
    WarcReader reader(file);
    WarcHeaders headers;
    std::string_view content;
    std::string out;
    try {
      while (reader.next(headers, content))
        out += headers.type == WarcReader::kDamage ? " damage" : " " + std::string(headers.uri);
    } catch (const DataError&) {
      out += " fault";
    }
    return out;
  };
  EXPECT_EQ(uris(ends[0] + 40), " http://a damage http://c");
  EXPECT_EQ(uris(ends[1] - 6), " http://a damage http://c");  // the checksum alone is wrong
  EXPECT_EQ(uris(ends[1] + 40), " http://a http://b fault");
}

// What crawlers wrote before WARC; addresses may have blanks, and version 2 has more fields.
TEST(Warc, ArcFilesAreReadAsResponses) {
  const TestFolder folder;
  const std::string answer = "HTTP/1.0 200 OK\nContent-Type: text/html\n\n<p>text";
  const auto arc = [](std::string_view version, std::string_view more, const std::string& content) {
    const std::string first = fmt::format("{} InternetArchive\nURL IP-address …\n", version);
    return fmt::format(
        "filedesc://x.arc 0.0.0.0 20080430204825 text/plain{} {}\n{}\n"
        "dns:a 1.2.3.4 20080430204825 text/dns{} 2\nA \n"
        "http://a/b c?d 1.2.3.4 20080430204826 text/html{} {}\n{}\n",
        more, first.size(), first, more, more, content.size(), content);
  };
  for (const std::string& text : {arc("1 0", "", answer), arc("2 0", " 200 - - 0 x.arc", answer)}) {
    write_text(folder / "a.arc", text);
    WarcReader reader(folder / "a.arc");
    WarcHeaders headers;
    std::string_view content;
    ASSERT_TRUE(reader.next(headers, content));
    EXPECT_EQ(headers.type, "warcinfo");
    ASSERT_TRUE(reader.next(headers, content));
    EXPECT_EQ(headers.type, "resource");
    EXPECT_EQ(headers.content_type, "text/dns");
    ASSERT_TRUE(reader.next(headers, content));
    EXPECT_EQ(headers.type, "response");
    EXPECT_EQ(headers.uri, "http://a/b c?d");
    EXPECT_EQ(headers.date, "2008-04-30T20:48:26Z");
    EXPECT_EQ(content, answer);
    EXPECT_EQ(std::string(content.data() - headers.bytes, 8), "WARC/1.0");
    EXPECT_FALSE(reader.next(headers, content));
    for (std::size_t i = 0; i < text.size(); i += 31) {  // which end too soon
      write_text(folder / "cut.arc", text.substr(0, i));
      WarcReader cut(folder / "cut.arc");
      try {
        while (cut.next(headers, content)) {
        }
      } catch (const DataError&) {
      }
    }
  }
}

TEST(Warc, CodingsAreTakenOffInTurn) {
  const auto deflate = [](const std::string& text) {
    uLongf size = ::compressBound(text.size());
    std::string out(size, '\0');
    EXPECT_EQ(::compress(reinterpret_cast<Bytef*>(out.data()), &size,
                         reinterpret_cast<const Bytef*>(text.data()), text.size()),
              Z_OK);
    return out.substr(0, size);
  };
  const std::string page = "<p>the boats of the harbour";
  const std::string packed = deflate(page);
  const auto body = [](const std::string& headers, const std::string& content) {
    HttpAnswer answer;
    const std::string text = "HTTP/1.1 200 OK\r\n" + headers + "\r\n\r\n" + content;
    EXPECT_TRUE(read_http_answer(text, answer));
    return std::string(answer.body);
  };
  const std::string chunks = fmt::format("{:x}\r\n{}\r\n0\r\n\r\n", packed.size(), packed);
  EXPECT_EQ(body("Transfer-Encoding: deflate, chunked", chunks), page);
  EXPECT_EQ(body("Content-Encoding: deflate\r\nTransfer-Encoding: chunked", chunks), page);
  EXPECT_EQ(body("Content-Encoding: deflate, deflate", deflate(packed)), page);
  EXPECT_EQ(body("Content-Encoding: identity , DEFLATE", packed), page);
}

TEST(Warc, HeadersOfAnyBytes) {
  const std::string good = warc_record("conversion", "http://a", "text");
  for (std::size_t i = 0; i < good.size(); ++i) {
    read_any_headers(std::string_view(good).substr(0, i));
    for (const char c : {'\n', '\r', ':', '\0', '\xff', '9'}) {
      std::string changed = good;
      changed[i] = c;
      read_any_headers(changed);
    }
  }
}

TEST(Warc, AnswersOfAnyBytes) {
  for (const char* coding : {"gzip", "deflate", "br", "zstd"})
    for (const std::string& body : {std::string("\x1f\x8b\x08\0\0\0\0\0\0\3\xcb\x48", 12),
                                    std::string("\x78\x9c\xcb\x48\xcd"), std::string("\x1b\x03\0\xf8", 4),
                                    std::string("\x28\xb5\x2f\xfd\x04\0\x19\0\0"
                                                "abc",
                                                12)}) {
      const std::string good =
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: " + std::string(coding) +
          "\r\n\r\n" + fmt::format("{:x}\r\n", body.size()) + body + "\r\n0\r\n\r\n";
      for (std::size_t i = 0; i < good.size(); ++i) {
        read_any_answer(std::string_view(good).substr(0, i));
        for (const char c : {'\n', 'f', '\0', '\xff', '9'}) {
          std::string changed = good;
          changed[i] = c;
          read_any_answer(changed);
        }
      }
    }
}

}  // namespace
}  // namespace stoa::curate
#endif
