// Keys of the rotary embedding: rope_theta and rope_scaling of transformers 4.x, rope_parameters of 5.x.
#pragma once

#include "model/huggingface/family.h"

namespace stoa::model::huggingface {

// Values of keys that a file may leave out.
struct RopeDefaults {
  double base = 10000;
  std::optional<double> share = {};  // of a head that rotates; none: the family knows but whole heads
  bool grids = false;  // keys of the positions of pictures (mrope_*) are there, which text is without
};
void read_rope(JsonKeys& keys, ModelConfig& config, const RopeDefaults& defaults);
void write_rope(const ModelConfig& config, Json& json);
// ConfigError: the channels that rotate are not pairs. Of classes that cut so many off a head.
void check_rotated_pairs(const ModelConfig& config);

// The dictionary alone, with rope_theta in it. What it leaves out stays as it is in `config`.
void read_rope_parameters(const nlohmann::json& object, ModelConfig& config, const RopeDefaults& defaults);
Json rope_parameters(const ModelConfig& config);

}  // namespace stoa::model::huggingface
