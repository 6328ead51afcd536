// Fuzz target of Arrow data. As a test it runs over seeds and their mutations for a second;
// tests/slow/fuzz.sh runs it with libFuzzer.
#include <cstddef>
#include <cstdint>

#include "formats/arrow/row_reader.h"
#include "formats/test_rows.h"

#ifdef STOA_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stoa::test::read_any_rows<stoa::arrow::RowReader>(reinterpret_cast<const char*>(data), size);
  return 0;
}
#else
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/test_paths.h"

namespace stoa::arrow {
namespace {

TEST(ArrowFuzz, SeedsAndMutations) {
  std::vector<std::string> seeds;
  for (const std::string name : {"stream", "file", "zstd", "views", "large", "growing", "empty"})
    seeds.push_back(read_text(test::source_dir() / "tests/fixtures/arrow" / (name + ".arrow")));
  const std::vector<std::string> tokens{std::string(4, '\0'), std::string(4, '\xff'),
                                        std::string("\x04\0\0\0", 4), "\x7f"};
  test::read_changed_rows<RowReader>(seeds, tokens, {.bytes = 3000}, "arrow files");
}

}  // namespace
}  // namespace stoa::arrow
#endif
