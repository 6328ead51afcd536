// Fuzz target of tar archives. As a test it runs over a seed and its mutations for a second;
// tests/slow/fuzz.sh runs it with libFuzzer.
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "ckpt/tar_files.h"

namespace stoa::ckpt {
namespace {

// Anything may be refused, with a DataError; every byte of what is found lies in the archive.
void read_archive(const std::uint8_t* data, std::size_t size) {
  const std::vector<std::uint8_t> copy(data, data + size);
  try {
    const TarFiles files(std::as_bytes(std::span(copy)), "fuzz");
    unsigned sum = 0;
    for (const std::string& name : files.names())
      for (const std::byte b : files.at(name)) sum += static_cast<unsigned>(b);
    static_cast<void>(sum);
  } catch (const DataError&) {
  }
}

}  // namespace
}  // namespace stoa::ckpt

#ifdef STOA_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stoa::ckpt::read_archive(data, size);
  return 0;
}
#else
#include <gtest/gtest.h>

#include <chrono>

#include "base/philox.h"

namespace stoa::ckpt {
namespace {

// A header with the right checksum, of a kind and size that may not be.
std::string tar_block(char kind, const std::string& size) {
  std::string block(512, '\0');
  block.replace(0, 4, "name");
  block.replace(124, size.size(), size);
  block[156] = kind;
  block.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  block.replace(148, 7, fmt::format("{:06o}", sum) + '\0');
  return block;
}

TEST(TarFilesFuzz, SeedsAndMutations) {
  const PhiloxKey key = philox_key(2024, RandomPurpose::kTest, "tar archives");
  std::uint64_t draw = 0;
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(philox_word(key, draw++) % n); };
  const std::string kinds = "0LxKg57",
                    contents[] = {"12 path=a/b\n", "999 path=x\n", std::string(40, '\0'), "name"};
  const auto start = std::chrono::steady_clock::now();
  std::size_t runs = 0;
  while (runs < 100 || std::chrono::steady_clock::now() - start < std::chrono::milliseconds(1000)) {
    std::string text;
    for (std::size_t n = 1 + below(4); n-- > 0;) {
      const std::string& content = contents[below(4)];
      const std::string sizes[] = {fmt::format("{:011o}", content.size()), "77777777777",
                                   std::string("\x80") + std::string(10, '\xff')};
      text += tar_block(kinds[below(kinds.size())], sizes[below(8) < 6 ? 0 : 1 + below(2)]);
      text += content + std::string(512 - content.size(), '\0');
    }
    for (std::size_t edits = below(4); edits-- > 0;) text[below(text.size())] = static_cast<char>(below(256));
    text.resize(text.size() - below(3) * 100);
    ASSERT_NO_THROW(read_archive(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
    ++runs;
  }
}

}  // namespace
}  // namespace stoa::ckpt
#endif
