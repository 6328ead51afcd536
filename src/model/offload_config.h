// Configuration of activations that wait in the host's memory between forward and backward: the keys of NeMo
// and Megatron under `model`.
#pragma once

#include <cstdint>
#include <optional>

#include "config/schema.h"

namespace stoa::model {

struct OffloadConfig {
  bool cpu_offloading = false;
  std::optional<std::int64_t> cpu_offloading_num_layers;  // null: all but a stage's last
  bool cpu_offloading_activations = true;
  bool cpu_offloading_weights = false;

  // Of a pipeline stage's layers, in the order of the model, the first so many.
  std::int64_t layers_of(std::int64_t stage_layers) const;
};

void declare_offload(config::Section<OffloadConfig>& s);

}  // namespace stoa::model
