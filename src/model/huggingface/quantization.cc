#include "model/huggingface/quantization.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace stoa::model::huggingface {
namespace {

// quant_method of transformers, and its name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kMethods{
    {{"gptq", "GPTQ"},
     {"awq", "AWQ"},
     {"bitsandbytes", "bitsandbytes"},
     {"compressed-tensors", "compressed-tensors"},
     {"mxfp4", "MXFP4"},
     {"fp8", "FP8 in blocks"},
     {"fbgemm_fp8", "FBGEMM FP8"},
     {"modelopt", "ModelOpt"},
     {"hqq", "HQQ"},
     {"quanto", "Quanto"},
     {"eetq", "EETQ"},
     {"aqlm", "AQLM"},
     {"torchao", "torchao"},
     {"bitnet", "BitNet"},
     {"higgs", "HIGGS"},
     {"auto-round", "AutoRound"}}};

// Ends of names that only files of a method have, the first that fits counts.
struct TensorMark {
  std::string_view ending, method;
};
constexpr std::array kMarks{TensorMark{".g_idx", "GPTQ"},
                            TensorMark{".qzeros", "AWQ or GPTQ"},
                            TensorMark{".qweight", "AWQ or GPTQ"},
                            TensorMark{".weight.quant_map", "bitsandbytes, 4 bits"},
                            TensorMark{".weight.absmax", "bitsandbytes, 4 bits"},
                            TensorMark{".SCB", "bitsandbytes, 8 bits"},
                            TensorMark{".weight_packed", "compressed-tensors"},
                            TensorMark{".weight_scale_inv", "FP8 in blocks"},
                            TensorMark{".weight_scale", "FP8 or compressed-tensors"}};

}  // namespace

std::string quantisation_text(const nlohmann::json& quantization) {
  const auto text = [&](const char* key) {
    const auto found = quantization.find(key);
    return found != quantization.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const auto whether = [&](const char* key) {
    const auto found = quantization.find(key);
    return found != quantization.end() && found->is_boolean() && found->get<bool>();
  };
  std::string method = text("quant_method");
  if (method.empty() && (whether("load_in_4bit") || whether("load_in_8bit"))) method = "bitsandbytes";
  if (method.empty()) return "an unnamed method";
  std::string out = method;
  for (const auto& [key, name] : kMethods)
    if (key == method) out = name;
  if (const auto bits = quantization.find("bits"); bits != quantization.end() && bits->is_number_integer())
    out += ", " + std::to_string(bits->get<std::int64_t>()) + " bits";
  if (whether("load_in_4bit")) out += ", 4 bits";
  if (whether("load_in_8bit")) out += ", 8 bits";
  if (const std::string format = text("format"); !format.empty()) out += ", format " + format;
  return out;
}

void refuse_quantised(std::span<const FileTensor> tensors) {
  for (const TensorMark& mark : kMarks)
    for (const FileTensor& tensor : tensors)
      require<DataError>(!tensor.name.ends_with(mark.ending),
                         "tensor '{}' belongs to weights quantised by {}, which are not supported; {}",
                         tensor.name, mark.method, kMakeFloats);
}

}  // namespace stoa::model::huggingface
