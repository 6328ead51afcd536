// The keys of model_type "stoa_gpt": those of Stoa's own configuration, for combinations that no family has.
#pragma once

#include "model/gpt.h"
#include "model/huggingface/json_keys.h"

namespace stoa::model::huggingface {

void read_stoa(JsonKeys& keys, ModelConfig& config);
void write_stoa(const Gpt& gpt, nlohmann::ordered_json& json);

}  // namespace stoa::model::huggingface
