// Hugging Face model families that Stoa reads and writes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "model/config.h"

namespace stoa::model::huggingface {

// kStoa: a combination of options that none of the families has, under names of our own; transformers cannot
// load it.
enum class Family : std::uint8_t { kGpt2, kLlama, kMistral, kQwen2, kQwen3, kMixtral, kQwen3Moe, kStoa };

std::string_view model_type(Family family);    // "gpt2"
std::string_view architecture(Family family);  // "GPT2LMHeadModel"
// ConfigError names the nearest known type.
Family family_from_model_type(std::string_view type);

// The family whose maths are those of the configuration. `why_not`: for kStoa, which option no family has.
Family choose_family(const ModelConfig& config, std::string* why_not = nullptr);

}  // namespace stoa::model::huggingface
