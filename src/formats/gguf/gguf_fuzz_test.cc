// Fuzz target of GGUF files. As a test it runs over a seed and its mutations for a second; tests/slow/fuzz.sh
// runs it with libFuzzer.
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/test_paths.h"
#include "formats/gguf/gguf_file.h"

namespace stoa::gguf {
namespace {

// Anything may be refused, with a DataError; nothing may crash, read beyond the bytes or take memory beyond
// their size by more than a factor.
void read_any_gguf(const std::uint8_t* data, std::size_t size) {
  // A copy of exactly this size: a sanitizer sees the first byte read beyond it.
  const std::vector<std::uint8_t> copy(data, data + size);
  try {
    const File file(std::as_bytes(std::span(copy)), "fuzz");
    for (const auto& [key, value] : file.keys())
      if (value.shown().empty() && value.is_array()) throw std::logic_error("an array without a text");
    std::vector<float> row;
    for (const Tensor& tensor : file.tensors()) {
      const std::int64_t count = std::min<std::int64_t>(tensor.numbers(), 1000);
      row.resize(static_cast<std::size_t>(count));
      quant::decode_numbers(*tensor.format, tensor.bytes.data(), tensor.numbers() - count, count, row.data());
    }
  } catch (const DataError&) {
  }
}

}  // namespace
}  // namespace stoa::gguf

#ifdef STOA_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stoa::gguf::read_any_gguf(data, size);
  return 0;
}
#else
#include <gtest/gtest.h>

#include <chrono>

#include "base/philox.h"

namespace stoa::gguf {
namespace {

TEST(GgufFuzz, SeedAndMutations) {
  const std::string seed = read_text(test::source_dir() / "tests/fixtures/gguf/values.gguf");
  const std::string tokens[] = {
      std::string(8, '\0'),         std::string(8, '\xff'), std::string("\x01\0\0\0\0\0\0\0", 8),
      std::string("\x09\0\0\0", 4), "general.alignment",    std::string(4, '\x7f')};
  const PhiloxKey key = philox_key(2026, RandomPurpose::kTest, "gguf files");
  std::uint64_t draw = 0;
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(philox_word(key, draw++) % n); };
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t runs = 0; runs < 100 || std::chrono::steady_clock::now() - start < std::chrono::seconds(1);
       ++runs) {
    std::string text = seed;
    for (std::size_t i = runs == 0 ? 0 : 1 + below(6); i > 0 && text.size() > 1; --i) {
      const std::size_t at = below(below(4) == 0 ? text.size() : std::min<std::size_t>(text.size(), 1400));
      switch (below(5)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
          break;
        case 2:
          text.erase(at, 1 + below(8));
          break;
        case 3:
          text.insert(at, tokens[below(std::size(tokens))]);
          break;
        default: {
          const std::string& token = tokens[below(std::size(tokens))];
          text.replace(at, std::min(token.size(), text.size() - at), token);
        }
      }
    }
    ASSERT_NO_THROW(read_any_gguf(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
  }
}

}  // namespace
}  // namespace stoa::gguf
#endif
