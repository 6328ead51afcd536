// generation_config.json of a Hugging Face model directory: how its makers want text drawn from it.
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
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<std::int64_t> top_k, max_new_tokens;
  std::vector<std::int32_t> suppressed, suppressed_first;  // never drawn; not as the first token
  std::vector<std::vector<std::int32_t>> bad_words;        // never completed
  // What the file asks for beside, and Stoa does not do: "no_repeat_ngram_size 3".
  std::vector<std::string> not_followed;

  // Whether it says how tokens are to be drawn.
  bool draws() const { return do_sample || temperature || top_p || min_p || top_k; }
};

// ConfigError: not a JSON object, or a key of another type than it has in transformers. Keys without effect
// on text (and max_length, which counts the prompt) are ignored.
GenerationConfig read_generation_config(std::string_view json);

// The file of a model of which no more is known.
std::string write_generation_config(const SpecialTokens& special);

}  // namespace stoa::model::huggingface
