// Quantised weights: which method made them, for who refuses them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "model/huggingface/tensor_map.h"

namespace stoa::model::huggingface {

// What to do about weights of a different type than floating point.
inline constexpr std::string_view kMakeFloats =
    "write quantised weights as floating point first (in transformers: model.dequantize(), "
    "model.save_pretrained(DIR))";

// `quantization` of config.json as people call it: "GPTQ, 4 bits".
std::string quantisation_text(const nlohmann::json& quantization);
// Of a directory whose config.json says nothing: DataError names the method that such tensors are known of.
void refuse_quantised(std::span<const FileTensor> tensors);

}  // namespace stoa::model::huggingface
