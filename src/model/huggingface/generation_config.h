// generation_config.json of a Hugging Face model directory: the sampling that its authors recommend.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/huggingface/config_json.h"

namespace stoa::model::huggingface {

struct GenerationConfig {
  static constexpr const char* kFile = "generation_config.json";

  SpecialTokens special;
  std::optional<bool> do_sample;
  std::optional<double> temperature, top_p, min_p, typical_p, repetition_penalty;
  std::optional<std::int64_t> top_k, max_new_tokens;
  std::vector<std::int32_t> suppressed, suppressed_first;  // never sampled; not as the first token
  std::vector<std::vector<std::int32_t>> bad_words;        // never completed
  // Settings in the file that Stoa does not support: "no_repeat_ngram_size 3".
  std::vector<std::string> not_followed;

  // Whether the file configures sampling.
  bool draws() const { return do_sample || temperature || top_p || min_p || top_k; }
};

// ConfigError: not a JSON object, or a key of the wrong type. Keys that do not affect text, and max_length,
// which counts the prompt, are ignored.
GenerationConfig read_generation_config(std::string_view json);

// The file for a model whose only known settings are its special tokens.
std::string write_generation_config(const SpecialTokens& special);

}  // namespace stoa::model::huggingface
