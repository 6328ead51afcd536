// Fuzz target of Arrow data. As a test it runs over seeds and their mutations for a second;
// tests/slow/fuzz.sh runs it with libFuzzer.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/test_paths.h"
#include "formats/arrow/row_reader.h"

namespace stoa::arrow {
namespace {

// Anything may be refused, with a DataError; nothing may crash or read beyond the bytes.
void read_any_arrow(const char* data, std::size_t size) {
  const std::vector<char> copy(data, data + size);  // a sanitizer sees the first byte read beyond it
  std::string rows;
  try {
    RowReader reader({copy.data(), copy.size()}, "fuzz");
    for (int i = 0; i < 200 && rows.size() < (1 << 20) && reader.next(rows); ++i) {
    }
  } catch (const DataError&) {
  }
}

}  // namespace
}  // namespace stoa::arrow

#ifdef STOA_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stoa::arrow::read_any_arrow(reinterpret_cast<const char*>(data), size);
  return 0;
}
#else
#include <gtest/gtest.h>

#include <chrono>

#include "base/file.h"
#include "base/philox.h"

namespace stoa::arrow {
namespace {

TEST(ArrowFuzz, SeedsAndMutations) {
  std::vector<std::string> seeds;
  for (const char* name : {"stream", "file", "zstd", "views", "large", "growing", "empty"})
    seeds.push_back(read_text(test::source_dir() / "tests/fixtures/arrow" / (std::string(name) + ".arrow")));
  const PhiloxKey key = philox_key(2026, RandomPurpose::kTest, "arrow files");
  std::uint64_t draw = 0;
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(philox_word(key, draw++) % n); };
  const std::string tokens[] = {std::string(4, '\0'), std::string(4, '\xff'), std::string("\x04\0\0\0", 4),
                                "\x7f"};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (int i = 0; i < 20 || std::chrono::steady_clock::now() < end; ++i) {
    std::string file = seeds[static_cast<std::size_t>(i) % seeds.size()];
    for (std::size_t changes = 1 + below(6); changes > 0; --changes) {
      // Half of the changes hit the schema, which says what everything else is.
      const std::size_t at = below(below(2) == 0 ? file.size() : std::min<std::size_t>(file.size(), 3000));
      const std::string& token = tokens[below(std::size(tokens))];
      if (below(3) == 0)
        file.replace(at, token.size(), token);
      else
        file[at] = static_cast<char>(below(256));
    }
    read_any_arrow(file.data(), file.size());
  }
}

}  // namespace
}  // namespace stoa::arrow
#endif
