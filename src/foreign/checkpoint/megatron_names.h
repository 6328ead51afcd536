// How Megatron names and arranges the tensors of a model: Megatron-Core's local layers, one by one, whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/huggingface/family.h"

namespace stoa::foreign {

// Names of tensors alone: it has no config.json.
const model::huggingface::Family& megatron_family();

// What the name of a tensor in a checkpoint says, of any version: Megatron-LM's classes ("query_key_value"),
// Megatron-Core's, and Transformer Engine's ("linear_qkv.layer_norm_weight").
struct MegatronName {
  // Without prefixes, in the family's spelling; {} stands for a layer or expert that the name does not give:
  // "decoder.layers.{}.mlp.experts.{}.linear_fc1.weight".
  std::string name;
  bool layers = false, experts = false;  // the first dimensions hold all layers, then all experts
  enum class Half { kNone, kGate, kUp } half = Half::kNone;  // of a gated projection that is stored in two
};
// nullopt: a state that no model needs (Transformer Engine's, of the optimizer, of random generators, copies
// of tied weights). `encoder_is_decoder`: Megatron-LM's own GPT calls its layers `encoder`.
std::optional<MegatronName> megatron_name(std::string_view stored, bool encoder_is_decoder);

// The number that follows `stem` in a name.
std::optional<std::int64_t> number_after(std::string_view name, std::string_view stem);

}  // namespace stoa::foreign
