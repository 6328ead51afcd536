// Keys of the rotary embedding: rope_theta and rope_scaling of transformers 4.x, rope_parameters of 5.x.
#pragma once

#include "model/huggingface/family.h"

namespace stoa::model::huggingface {

// Defaults of keys that a file may omit.
struct RopeDefaults {
  double base = 10000;
  std::optional<double> share = {};  // rotated share of a head; none: the family always rotates all
  bool grids = false;                // the file has keys for image positions (mrope_*), not used for text
};
void read_rope(JsonKeys& keys, ModelConfig& config, const RopeDefaults& defaults);
void write_rope(const ModelConfig& config, Json& json);
// For classes that require an even number of rotated channels: ConfigError if it is odd or 0.
void check_rotated_pairs(const ModelConfig& config);

// Reads only the dictionary, which includes rope_theta. Keys that it omits keep their values in `config`.
void read_rope_parameters(const nlohmann::json& object, ModelConfig& config, const RopeDefaults& defaults);
Json rope_parameters(const ModelConfig& config);

// Rotary parameters of models whose layers with a window have a base of their own (Gemma 3, OLMo 3):
// rope_theta, rope_scaling and rope_local_base_freq of transformers 4.x; 5.x nests them by kind of layer.

// After the window's keys. The bases are those of keys that a file leaves out.
void read_layered_rope(JsonKeys& keys, ModelConfig& config, double base, double local_base);
void write_layered_rope(const ModelConfig& config, Json& json);

}  // namespace stoa::model::huggingface
