// The tensors of an adapter's files under the names of the model that they belong to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "model/adapter_plan.h"

namespace stoa::infer {

struct FileValues {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

// By path of the module in the model's files and the end that PEFT gives it
// ("model.layers.0.self_attn.q_proj.lora_A.weight"), or by the name of a tensor of the model itself that was
// trained. Adapters of a model's body, or of a model within another, have shorter or longer paths and are
// recognised. Experts that are one parameter in PEFT and several in the model's files are taken apart.
// DataError: tensors that belong to no module of the model, values that are not finite.
std::map<std::string, FileValues> read_adapter_values(const std::filesystem::path& directory,
                                                      const model::ModelSpec& base,
                                                      const model::huggingface::Family& family);

// The tensors of AdapterHub's adapter of `adapted`, by the keys of bottleneck_tensors(), whatever the
// adapter's name. DataError: tensors that belong to none of them, values that are not finite.
std::map<std::string, FileValues> read_bottleneck_values(const std::filesystem::path& directory,
                                                         const model::ModelSpec& adapted);

// All tensors of an adapter of virtual tokens, by name in the file; of an encoder-decoder's embeddings those
// in front of the encoder's input (AdapterDescription::submodules). DataError: values that are not finite.
std::map<std::string, FileValues> read_virtual_values(const std::filesystem::path& directory,
                                                      const model::ModelSpec& adapted);

}  // namespace stoa::infer
