// Keys and names of experts that several families share.
#pragma once

#include "model/huggingface/family.h"

namespace stoa::model::huggingface {

// What the families call differently is read under every name that either version of transformers writes.
void read_experts(JsonKeys& keys, ModelConfig& config, std::int64_t default_experts,
                  std::int64_t default_chosen);
void write_experts(const ModelConfig& config, Json& json);
// Those of DeepSeek-V3 and what follows it: sigmoid scores, a bias of the choice, groups, shared experts, and
// first layers without experts.
struct GroupedExpertDefaults {
  std::int64_t experts, chosen, ffn, shared, groups, chosen_groups, dense;
  bool normalized;
  double scale;
};
void read_grouped_experts(JsonKeys& keys, ModelConfig& config, const GroupedExpertDefaults& defaults);
void write_grouped_experts(const ModelConfig& config, Json& json);

// Names of experts one by one: mlp.experts.3.gate_proj, and their router's.
std::vector<NameRule> expert_names();
// And of the shared ones, and of the bias of the choice.
std::vector<NameRule> grouped_expert_names();
// mixtral's names.
std::vector<NameRule> block_sparse_names();
// Layers beyond the model's own predict several tokens ahead (DeepSeek-V3, section 2.2): not loaded.
bool is_further_layer(std::string_view name, const ModelConfig& config);

// Layers without experts, as a list of numbers.
Json dense_layers(const ModelConfig& config);

}  // namespace stoa::model::huggingface
