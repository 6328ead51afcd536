// Fuzz target of the `.idx` parser. As a test it runs over a seed and its mutations for about a second;
// tests/slow/fuzz.sh runs it with libFuzzer.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "data/idx_file.h"

namespace {

// Whether the bytes are an index.
bool is_accepted(const std::uint8_t* data, std::size_t size) {
  // A copy of exactly `size` bytes: an access beyond it is seen by the address sanitizer.
  const std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(data),
                                     reinterpret_cast<const std::byte*>(data) + size);
  try {
    constexpr std::uint64_t kBin = 30;
    const stoa::data::IdxView idx(bytes, kBin, "fuzz");
    const auto width = static_cast<std::int64_t>(stoa::data::token_dtype_bytes(idx.dtype()));
    for (std::int64_t i = 0; i < idx.sequences(); ++i)
      if (idx.offset(i) < 0 || idx.offset(i) + idx.length(i) * width > static_cast<std::int64_t>(kBin))
        __builtin_trap();
    std::int64_t previous = 0;
    for (std::int64_t i = 0; i <= idx.documents(); ++i) {
      if (idx.document_start(i) < previous || idx.document_start(i) > idx.sequences()) __builtin_trap();
      previous = idx.document_start(i);
    }
  } catch (const stoa::DataError&) {
    return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)is_accepted(data, size);
  return 0;
}

#ifndef STOA_LIBFUZZER
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>

namespace stoa::data {
namespace {

std::string seed_file() {
  std::string text(kIdxMagic);
  const auto put = [&](auto value) { text.append(reinterpret_cast<const char*>(&value), sizeof value); };
  put(std::uint64_t{1});
  put(std::uint8_t{8});
  put(std::uint64_t{3});
  put(std::uint64_t{4});
  for (const std::int32_t n : {5, 3, 7}) put(n);
  for (const std::int64_t at : {0, 10, 16}) put(at);
  for (const std::int64_t d : {0, 1, 2, 3}) put(d);
  return text;
}

bool feed(const std::string& text) {
  return is_accepted(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

TEST(IdxFuzz, MutationsAreAcceptedSafelyOrRefused) {
  const std::string seed = seed_file();
  ASSERT_EQ(seed.size(), 102u);
  ASSERT_TRUE(feed(seed));
  std::mt19937 random(1);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(800);
  const unsigned char interesting[] = {0, 1, 2, 4, 7, 8, 9, 0x7f, 0x80, 0xff};
  long refused = 0, tried = 0;
  while (tried < 1000 || std::chrono::steady_clock::now() < end) {
    std::string text = seed;
    for (unsigned edits = 1 + random() % 4; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text[at] = static_cast<char>(interesting[random() % sizeof interesting]);
          break;
        case 2:
          text.resize(at + 1);
          break;
        default:
          text.insert(at, random() % 9, static_cast<char>(random()));
          break;
      }
    }
    refused += !feed(text);
    ++tried;
  }
  EXPECT_GT(refused, tried / 2);
}

}  // namespace
}  // namespace stoa::data
#endif
