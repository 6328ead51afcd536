// Bottleneck adapters in the form of AdapterHub's library "adapters": adapter_config.json and the names of
// tensors.
#pragma once

#include <string>
#include <vector>

#include "model/huggingface/adapter_tensors.h"

namespace stoa::model::huggingface {

// What AdapterHub calls the adapters that are written here: part of the names of their tensors.
inline constexpr const char* kBottleneckName = "stoa";

// The tensors of the bottlenecks of `spec`, which has some. Keys are the names without the adapter's own:
// "model.layers.0.output_adapters.adapter_down.0.weight".
std::vector<AdapterTensor> bottleneck_tensors(const ModelSpec& spec);
// The key of a tensor of AdapterHub; "": its name is none of a bottleneck.
std::string bottleneck_key(const std::string& name);

// Whether it is AdapterHub's adapter_config.json.
bool describes_bottlenecks(const nlohmann::json& config);
// ConfigError: an option that is not supported.
PeftConfig read_bottleneck_config(const nlohmann::json& config);
std::string write_bottleneck_config(const ModelSpec& spec, const std::string& base);
// What two adapters of a model `hidden` wide must have in common for one to continue the other: "seq_bn
// bottlenecks of width 5, relu, scaling 1".
std::string bottleneck_text(const BottleneckConfig& config, std::int64_t hidden);

}  // namespace stoa::model::huggingface
