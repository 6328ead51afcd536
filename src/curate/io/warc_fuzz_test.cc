// Headers of archives from anywhere: read or refused, with views inside the text.
#include "base/test_folder.h"
#include "curate/io/http.h"
#include "curate/io/warc.h"

#ifndef STOA_LIBFUZZER
#include <gmock/gmock.h>

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
  EXPECT_THAT(said(warc_record("conversion", "x", "abc", "99999999999")), HasSubstr("at most"));
  EXPECT_THAT(said(warc_record("conversion", "x", "abc", "-1")), HasSubstr("without a Content-Length"));
  EXPECT_THAT(said(warc_record("conversion", "x", "abc", "1")),
              HasSubstr("no WARC record"));  // what follows is no record
  EXPECT_THAT(said("WARC/1.0\r\nWARC-Type: conversion\r\n"), HasSubstr("within the headers"));
  EXPECT_THAT(said("WARC/1.0\r\n" + std::string(200'000, 'x')), HasSubstr("headers of more than"));
  EXPECT_EQ(said(""), "no error");
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
