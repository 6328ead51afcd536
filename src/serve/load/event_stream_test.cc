#include "serve/load/event_stream.h"

#include <gmock/gmock.h>

namespace stoa::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The bytes come in pieces of `size`.
std::vector<std::string> events_of(std::string_view bytes, std::size_t size) {
  EventStream stream;
  std::vector<std::string> out;
  for (std::size_t at = 0; at < bytes.size(); at += size)
    for (std::string& event : stream.feed(bytes.substr(at, size))) out.push_back(std::move(event));
  return out;
}

TEST(EventStream, IsReadAsTheStandardSaysHoweverItsBytesCome) {
  constexpr std::string_view kBytes =
      "\xEF\xBB\xBF"
      "data: {\"a\":1}\n\n: a comment\n\nevent: x\ndata:two\ndata: lines\n\nid: 7\n\r\ndata\r\rdata:  "
      "kept blank\r\n\r\ndata: [DONE]\n\ndata: without an end";
  for (std::size_t size = 1; size < kBytes.size(); ++size)
    EXPECT_THAT(events_of(kBytes, size), ElementsAre("{\"a\":1}", "two\nlines", "", " kept blank", "[DONE]"))
        << size;
}

TEST(EventStream, FieldsAreWholeWords) {
  EXPECT_THAT(events_of("database: x\n\nDATA: x\n\n data: x\n\n", 100), IsEmpty());
}

TEST(EventStream, EndlessEventsAreRefused) {
  EventStream stream;
  const std::string line = "data: " + std::string(std::size_t{1} << 20, 'x') + "\n";
  EXPECT_ANY_THROW(for (int i = 0; i < 100; ++i) stream.feed(line));
}

}  // namespace
}  // namespace stoa::serve
