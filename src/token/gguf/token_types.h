// tokenizer.ggml.token_type.
#pragma once

#include <cstdint>

namespace stoa::token {

enum class GgufTokenType : std::int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,  // special: not text
  kUser = 4,     // added, and text
  kUnused = 5,
  kByte = 6,
};

inline constexpr std::string_view kGgufTokens = "tokenizer.ggml.tokens",
                                  kGgufScores = "tokenizer.ggml.scores",
                                  kGgufTypes = "tokenizer.ggml.token_type",
                                  kGgufMerges = "tokenizer.ggml.merges", kGgufModel = "tokenizer.ggml.model",
                                  kGgufPre = "tokenizer.ggml.pre", kGgufTemplate = "tokenizer.chat_template",
                                  kGgufTemplates = "tokenizer.chat_templates",
                                  kGgufTemplateOf = "tokenizer.chat_template.";  // a name follows

}  // namespace stoa::token
