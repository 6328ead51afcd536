#include "run/offload.h"

#include <algorithm>
#include <map>

#include "base/error.h"

namespace stoa::run {

std::vector<std::int64_t> offloaded_layers(const std::vector<PlacedChunk>& chunks,
                                           const model::OffloadConfig& config) {
  std::map<int, std::int64_t> layers;  // of every stage
  for (const PlacedChunk& chunk : chunks) layers[chunk.rank] += chunk.layers;
  std::int64_t most = 0;
  for (const auto& [stage, count] : layers) most = std::max(most, count);
  const std::int64_t wanted = config.cpu_offloading_num_layers.value_or(0);
  require<ConfigError>(
      !config.cpu_offloading || wanted <= most,
      "cpu_offloading_num_layers {} counts the layers of a pipeline stage, which has {}: give at most "
      "that",
      wanted, most);
  std::map<int, std::int64_t> left;
  for (const auto& [stage, count] : layers) left[stage] = config.layers_of(count);
  std::vector<std::int64_t> out;
  for (const PlacedChunk& chunk : chunks) {
    out.push_back(std::min(chunk.layers, left[chunk.rank]));
    left[chunk.rank] -= out.back();
  }
  return out;
}

std::unique_ptr<nn::OffloadRing> make_offload_ring(Arena& arena,
                                                   const std::vector<std::unique_ptr<model::Chunk>>& chunks) {
  std::int64_t blocks = 0;
  std::size_t largest = 0;
  for (const auto& chunk : chunks) {
    blocks += chunk->offloaded_blocks();
    largest = std::max(largest, chunk->largest_offload());
  }
  return std::make_unique<nn::OffloadRing>(arena, blocks, largest);
}

}  // namespace stoa::run
