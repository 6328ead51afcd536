// Fuzz target of .tiktoken and tekken.json: any bytes are read or refused with DataError, and what is read
// encodes and decodes. As a test it runs over seeds and mutations of them for a second; tests/slow/fuzz.sh
// runs it with libFuzzer.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "token/tokenizer.h"

namespace stoa::token {

void read_ranked_tokens(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto use = [](TokenizerSpec spec) {
    const Tokenizer tokenizer(std::move(spec));
    (void)tokenizer.decode(
        tokenizer.encode("A b'll <|endoftext|> \xFF\xC3\xA9 1234  \n x", {.add_special = true}));
  };
  for (const char* name : {"cl100k_base.tiktoken", "qwen.tiktoken"}) {
    try {
      use(parse_tiktoken(text, name, ""));
    } catch (const stoa::DataError&) {
    }
  }
  try {
    use(parse_tekken(text));
  } catch (const stoa::DataError&) {
  }
}

}  // namespace stoa::token

#ifdef STOA_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stoa::token::read_ranked_tokens(data, size);
  return 0;
}
#else
#include <gtest/gtest.h>

#include <chrono>

#include "token/test_support.h"

namespace stoa::token {
namespace {

TEST(FuzzRankedTokens, SeedsAndMutations) {
  std::vector<std::string> seeds;
  for (const auto& entry : fs::directory_iterator(test::fixture("fuzz-ranks")))
    seeds.push_back(read_text(entry.path()));
  ASSERT_GE(seeds.size(), 2U);
  const auto run_seed = [](const std::string& input) {
    read_ranked_tokens(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  };
  for (const auto& seed : seeds) run_seed(seed);
  test::Random random(7);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (int runs = 0; runs < 20 || std::chrono::steady_clock::now() < end; ++runs)
    run_seed(test::mutated(seeds, random));
}

}  // namespace
}  // namespace stoa::token
#endif
