// Quantised weights: names the method that made them, for messages that reject them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "model/huggingface/tensor_map.h"

namespace stoa::model::huggingface {

// Advice in messages about weights that are not floating point.
inline constexpr std::string_view kMakeFloats =
    "write quantised weights as floating point first (in transformers: model.dequantize(), "
    "model.save_pretrained(DIR))";

// `quantization` of config.json by its common name: "GPTQ, 4 bits".
std::string quantisation_text(const nlohmann::json& quantization);
// For a directory whose config.json does not mention it: DataError names the method by the tensors' names.
void refuse_quantised(std::span<const FileTensor> tensors);

}  // namespace stoa::model::huggingface
