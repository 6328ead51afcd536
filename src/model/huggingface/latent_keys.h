// Multi-head latent attention in files of DeepSeek-V2 and V3.
#pragma once

#include "model/huggingface/family.h"

namespace stoa::model::huggingface {

void read_latent(JsonKeys& keys, ModelConfig& config);
void write_latent(const ModelConfig& config, Json& json);
// interleaved: rows of queries and keys that rotate together stand side by side; otherwise as the rotation of
// halves wants them.
std::vector<NameRule> latent_names(bool interleaved);

}  // namespace stoa::model::huggingface
