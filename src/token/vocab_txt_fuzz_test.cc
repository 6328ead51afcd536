// Fuzz target of vocab.txt: any bytes are read or refused with DataError, and what is read encodes, decodes
// and is written as files that give the same tokenizer. As a test it runs over seeds and mutations of them
// for a second; tests/slow/fuzz.sh runs it with libFuzzer.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "token/tokenizer.h"

namespace stoa::token {
namespace {

void read_any(std::string_view text) {
  std::optional<Tokenizer> read;
  try {
    read.emplace(parse_vocab_txt(text));
  } catch (const DataError&) {
    return;
  }
  for (const std::string_view sample :
       {std::string_view("Ab cafe\u0301! [MASK]\t\u4e2d\u6587 \xFF\xC3\xA9 12"), text})
    (void)read->decode(read->encode(sample, {.add_special = true}));
  const auto again = Tokenizer::from_json(tokenizer_json(read->spec()));
  if (again.fingerprint() != read->fingerprint()) __builtin_trap();
  const Tokenizer same(parse_vocab_txt(vocab_txt(read->spec())));
  if (same.fingerprint() != read->fingerprint()) __builtin_trap();
}

}  // namespace
}  // namespace stoa::token

#ifdef STOA_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stoa::token::read_any({reinterpret_cast<const char*>(data), size});
  return 0;
}
#else
#include <gtest/gtest.h>

#include <chrono>

#include "token/test_support.h"

namespace stoa::token {
namespace {

TEST(FuzzVocabTxt, SeedsAndMutations) {
  std::vector<std::string> seeds = {"[UNK]\r\na\r\n##b\r\n", "[UNK]\nc\r\r\n",
                                    "[PAD]\n\n[UNK]\n[CLS]\n[SEP]\n\n\n##\n## x\n \xE4\xB8\xAD"};
  for (const char* name : {"bert", "bert-cased"})
    seeds.push_back(vocab_txt(Tokenizer::load(test::fixture(name)).spec()));
  for (const auto& seed : seeds) read_any(seed);
  test::Random random(7);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (int runs = 0; runs < 20 || std::chrono::steady_clock::now() < end; ++runs)
    read_any(test::mutated(seeds, random));
}

}  // namespace
}  // namespace stoa::token
#endif
