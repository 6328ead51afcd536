// Fuzz target of config.json and generation_config.json: any bytes are read or refused with ConfigError. As a
// test it runs over seeds and mutations of them for a second; tests/slow/fuzz.sh runs it with libFuzzer.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "model/huggingface/generation_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace hf = stoa::model::huggingface;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    (void)hf::read_config(text);
  } catch (const stoa::ConfigError&) {
  }
  try {
    (void)hf::read_generation_config(text);
  } catch (const stoa::ConfigError&) {
  }
  return 0;
}

#ifndef STOA_LIBFUZZER
#include <gtest/gtest.h>

#include <chrono>

namespace stoa::model::huggingface {
namespace {

TEST(FuzzConfigJson, SeedsAndMutations) {
  const std::vector<std::string> seeds{
      R"({"eos_token_id": [1, 2], "do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95,
          "bad_words_ids": [[1], [2, 3]], "suppress_tokens": [4], "num_beams": 2, "stop_strings": ["a"]})",
      R"({"model_type": "llama", "hidden_size": 16, "num_attention_heads": 4, "rope_scaling":
          {"rope_type": "yarn", "factor": 4.0}, "eos_token_id": 2})",
      R"({"model_type": "phi3", "layer_types": ["full_attention"], "num_hidden_layers": 1, "rope_parameters":
          {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [2.0]}, "sliding_window": 4})"};
  std::uint64_t state = 4321;
  const auto below = [&](std::size_t n) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return n == 0 ? 0 : static_cast<std::size_t>(state >> 33) % n;
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (int runs = 0; runs < 50 || std::chrono::steady_clock::now() < end; ++runs) {
    std::string input = seeds[below(seeds.size())];
    for (std::size_t change = below(4); change > 0 && !input.empty(); --change) {
      const std::size_t at = below(input.size());
      switch (below(3)) {
        case 0:
          input[at] = static_cast<char>(below(256));
          break;
        case 1:
          input.erase(at, 1 + below(12));
          break;
        default:
          input.insert(at, 1, "{}[],:\"-+.0123456789eEtfn "[below(26)]);
      }
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
}

}  // namespace
}  // namespace stoa::model::huggingface
#endif
