// config.json of a Hugging Face model directory, in the forms of transformers 4.x and 5.x.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/huggingface/family.h"

namespace stoa::model::huggingface {

// Token ids that a model directory names.
struct SpecialTokens {
  std::optional<std::int64_t> bos, pad;
  std::vector<std::int64_t> eos;
  std::optional<std::int64_t> decoder_start = {};  // first token of an encoder-decoder's target
};

struct ModelDescription {
  const Family* family = nullptr;  // of the table: never null after reading
  ModelConfig config;              // vocab_size is set
  SpecialTokens special;
  std::optional<std::string> dtype;  // "bfloat16", where the file says
  // Set where the weights are quantised in a way that is not read: the key and the method.
  std::optional<std::string> quantised = {};
};

// Reads either form; where both spellings are present, that of 5.x counts. ConfigError: not JSON, an unknown
// model_type, a key or value that this family does not have here (named).
ModelDescription read_config(std::string_view json);

// What is written loads right in transformers 4.x and 5.x: both spellings stand side by side. `dtype`: of the
// weights.
std::string write_config(const ModelSpec& spec, const Family& family, DType dtype,
                         const SpecialTokens& special);

}  // namespace stoa::model::huggingface
