// Fuzz target of the reading of text: whatever the bytes, what comes out is UTF-8, the same however it is
// read. As a test it runs over seeds and their mutations for about a second; tests/slow/fuzz.sh runs it with
// libFuzzer.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/error.h"
#include "data/text_source.h"
#include "data/utf8_scan.h"

namespace {

class MemoryBytes final : public stoa::data::ByteSource {
 public:
  MemoryBytes(std::string bytes, std::size_t piece) : bytes_(std::move(bytes)), piece_(piece) {}
  std::size_t read(char* to, std::size_t bytes) override {
    const std::size_t count = std::min({bytes, piece_, bytes_.size() - at_});
    std::memcpy(to, bytes_.data() + at_, count);
    at_ += count;
    return count;
  }
  std::uint64_t position() const override { return at_; }

 private:
  const std::string bytes_;
  const std::size_t piece_;
  std::size_t at_ = 0;
};

// Whether the bytes are text; then what it says.
bool is_text(const std::string& bytes, std::size_t piece, std::string& text) {
  text.clear();
  try {
    const auto source = stoa::data::text_of(std::make_unique<MemoryBytes>(bytes, piece), "fuzz", {});
    std::string buffer(piece, '\0');
    while (const std::size_t got = source->read(buffer.data(), buffer.size())) text.append(buffer, 0, got);
  } catch (const stoa::Error&) {
    return false;
  }
  return true;
}

bool check(const std::string& bytes) {
  std::string whole, pieces;
  const bool accepted = is_text(bytes, 1 << 16, whole);
  if (is_text(bytes, 3, pieces) != accepted || (accepted && whole != pieces)) __builtin_trap();
  if (accepted && stoa::data::scan_utf8(whole).valid != whole.size()) __builtin_trap();
  return accepted;
}

}  // namespace

#ifdef STOA_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)check(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
#else
#include <gtest/gtest.h>

#include <chrono>
#include <random>

namespace stoa::data {
namespace {

TEST(TextFuzz, WhateverIsReadIsUtf8) {
  using namespace std::string_literals;
  const std::string seeds[] = {"Gr\xc3\xbc\xc3\x9f\x65 \xe2\x80\x93 \xf0\x9f\x99\x82\r\nzwei\r\n"s,
                               "\xff\xfeG\0r\0\xfc\0\r\0\n\0\x3d\xd8\x42\xde"s,
                               "\0\0\0a\0\0\0\n\0\1\xf6\x42"s, "Caf\xe9 \x96 caf\xe9\r\n"s,
                               "\xef\xbb\xbf{\"text\": \"a\"}\n"s};
  std::mt19937 random(1);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(800);
  long accepted = 0, tried = 0;
  while (tried < 1000 || std::chrono::steady_clock::now() < end) {
    std::string text = seeds[random() % std::size(seeds)];
    for (unsigned edits = random() % 4; edits > 0; --edits) {
      const std::size_t at = random() % (text.size() + 1);
      switch (random() % 3) {
        case 0:
          text.insert(at, 1 + random() % 5, static_cast<char>(random()));
          break;
        case 1:
          text.resize(at);
          break;
        default:
          if (at < text.size()) text[at] = static_cast<char>(random());
          break;
      }
    }
    accepted += check(text);
    ++tried;
  }
  EXPECT_GT(accepted, tried / 4);
}

}  // namespace
}  // namespace stoa::data
#endif
