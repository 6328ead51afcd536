// Configuration of the parametrisation by width: the keys of Megatron under `model` (model/mup.h).
#pragma once

#include <cstdint>
#include <optional>

#include "config/schema.h"

namespace stoa::model {

struct MupConfig {
  bool use_mup = false;
  std::optional<std::int64_t> mup_base_hidden_size;  // the width at which learning rates were found
  std::optional<double> mup_base_head_dim;  // scores at heads of this size are divided by its root; null: 1
  double mup_output_mult = 1.0;             // of the logits at the base width
};

void declare_mup(config::Section<MupConfig>& s);

}  // namespace stoa::model
