// Fuzz target of Parquet files. As a test it runs over seeds and their mutations for a second;
// tests/slow/fuzz.sh runs it with libFuzzer.
#include <cstddef>
#include <cstdint>

#include "formats/parquet/row_reader.h"
#include "formats/test_rows.h"

#ifdef STOA_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stoa::test::read_any_rows<stoa::parquet::RowReader>(reinterpret_cast<const char*>(data), size);
  return 0;
}
#else
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/test_paths.h"

namespace stoa::parquet {
namespace {

TEST(ParquetFuzz, SeedsAndMutations) {
  std::vector<std::string> seeds;
  for (const std::string name : {"none-1.0", "snappy-2.0", "encodings", "lz4-1.0", "gzip-1.0", "empty"})
    seeds.push_back(read_text(test::source_dir() / "tests/fixtures/parquet" / (name + ".parquet")));
  const std::vector<std::string> tokens{std::string(4, '\0'), std::string(4, '\xff'), "\x7f",
                                        "\x80\x80\x80\x80\x08", "\x15\x00"};
  test::read_changed_rows<RowReader>(seeds, tokens, {.bytes = 9000, .at_end = true}, "parquet files");
}

}  // namespace
}  // namespace stoa::parquet
#endif
