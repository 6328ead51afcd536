// Fuzz target of tokenizer.json: any bytes are read or refused with DataError, and what is read encodes and
// decodes. As a test it runs over seeds and mutations of them for a second; tests/slow/fuzz.sh runs it with
// libFuzzer.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "token/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto tokenizer = stoa::token::Tokenizer::from_json(text);
    const auto ids = tokenizer.encode("A b'll <|endoftext|> \xFF\xC3\xA9 12", {.add_special = true});
    (void)tokenizer.decode(ids);
    const auto again = stoa::token::Tokenizer::from_json(stoa::token::tokenizer_json(tokenizer.spec()));
    if (again.fingerprint() != tokenizer.fingerprint()) __builtin_trap();
  } catch (const stoa::DataError&) {
  }
  try {
    stoa::token::TokenizerSpec spec;
    stoa::token::apply_tokenizer_config(text, spec);
  } catch (const stoa::DataError&) {
  }
  return 0;
}

#ifndef STOA_LIBFUZZER
#include <gtest/gtest.h>

#include <chrono>

#include "token/test_support.h"

namespace stoa::token {
namespace {

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

TEST(FuzzTokenizerJson, SeedsAndMutations) {
  std::vector<std::string> seeds;
  for (const char* name : {"gpt2", "llama3", "qwen2", "bloom", "llama2"}) {
    // One line: cuts and swaps then hit structure more often than indentation.
    seeds.push_back(
        nlohmann::ordered_json::parse(read_text(test::fixture(std::string(name) + "/tokenizer.json")))
            .dump());
  }
  const auto components = nlohmann::ordered_json::parse(read_text(test::fixture("components.json")));
  for (const auto& entry : components["tokenizers"]) {
    nlohmann::ordered_json file = {{"version", "1.0"}};
    for (const char* key : {"added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder"})
      file[key] = entry[key];
    file["model"] = components["models"][entry["model"].get<std::string>()];
    seeds.push_back(file.dump());
  }
  for (const auto& entry : fs::directory_iterator(test::fixture("fuzz")))
    seeds.push_back(read_text(entry.path()));
  for (const auto& seed : seeds) run(seed);
  test::Random random(99);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  int runs = 0;
  while (runs < 20 || std::chrono::steady_clock::now() < end) {
    run(test::mutated(seeds, random));
    ++runs;
  }
}

}  // namespace
}  // namespace stoa::token
#endif
