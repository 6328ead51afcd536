// Configuration of activation offloading: saved activations move to host memory between forward and backward.
// The keys of NeMo and Megatron under `model`.
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

  // How many of a pipeline stage's layers, counted from its first one, offload their activations.
  std::int64_t layers_of(std::int64_t stage_layers) const;
};

void declare_offload(config::Section<OffloadConfig>& s);

}  // namespace stoa::model
