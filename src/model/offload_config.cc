#include "model/offload_config.h"

#include <algorithm>

#include "base/error.h"

namespace stoa::model {

std::int64_t OffloadConfig::layers_of(std::int64_t stage_layers) const {
  if (!cpu_offloading) return 0;
  return std::clamp<std::int64_t>(cpu_offloading_num_layers.value_or(stage_layers - 1), 0, stage_layers);
}

void declare_offload(config::Section<OffloadConfig>& s) {
  using C = OffloadConfig;
  s.field("cpu_offloading", &C::cpu_offloading)
      .help(
          "Keep saved activations of some layers in host memory (pinned, if the device is a GPU) between "
          "forward and backward, with copies overlapping computation. Bit-identical results.");
  s.field("cpu_offloading_num_layers", &C::cpu_offloading_num_layers)
      .range(0, 65536)
      .derived("all layers of a pipeline stage but the last, which is needed at once")
      .help(
          "With cpu_offloading: number of layers offloaded in each pipeline stage, counted from its first.");
  s.field("cpu_offloading_activations", &C::cpu_offloading_activations)
      .help("With cpu_offloading, true: activations are all that can be offloaded.");
  s.field("cpu_offloading_weights", &C::cpu_offloading_weights)
      .help("With cpu_offloading, false: weights stay on the device (zero_stage 3 shards them over ranks).");
  s.validate({"cpu_offloading", "cpu_offloading_activations", "cpu_offloading_weights"}, [](const C& c) {
    require<ConfigError>(!c.cpu_offloading || c.cpu_offloading_activations,
                         "cpu_offloading without cpu_offloading_activations moves nothing: give "
                         "cpu_offloading_activations true, or cpu_offloading false");
    require<ConfigError>(!c.cpu_offloading || !c.cpu_offloading_weights,
                         "cpu_offloading_weights true: only activations are moved; give false (zero_stage 3 "
                         "shards weights over ranks)");
  });
}

}  // namespace stoa::model
