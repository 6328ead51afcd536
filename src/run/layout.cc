#include "run/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "schedule/generators.h"
#include "schedule/validate.h"

namespace stoa::run {
namespace {

schedule::ScheduleRequest request_of(const Layout& layout, std::int64_t microbatches) {
  require<ConfigError>(microbatches >= 1 && microbatches <= schedule::kMaxScheduleItems,
                       "a step of {} microbatches: expected 1 to {}", microbatches,
                       schedule::kMaxScheduleItems);
  return {.name = layout.schedule,
          .stages = layout.pipeline_ranks(),
          .chunks = layout.chunks,
          .microbatches = static_cast<int>(microbatches),
          .group = layout.microbatch_group};
}

std::vector<std::int64_t> layers_of_chunks(const Layout& layout, std::int64_t num_layers, int chunks) {
  if (!layout.layers.empty()) {
    const std::int64_t sum = std::accumulate(layout.layers.begin(), layout.layers.end(), std::int64_t{0});
    require<ConfigError>(static_cast<int>(layout.layers.size()) == chunks,
                         "layers per chunk: {} numbers ({}), expected {}, one per chunk in model order",
                         layout.layers.size(), fmt::join(layout.layers, ", "), chunks);
    require<ConfigError>(sum == num_layers && std::all_of(layout.layers.begin(), layout.layers.end(),
                                                          [](std::int64_t n) { return n >= 0; }),
                         "layers per chunk {} add up to {}, the model has {} layers",
                         fmt::join(layout.layers, " + "), sum, num_layers);
    return layout.layers;
  }
  const std::int64_t extra = (layout.embedding_as_layer ? 1 : 0) + (layout.head_as_layer ? 1 : 0);
  const std::int64_t counted = num_layers + extra;
  if (counted % chunks != 0) {
    const std::int64_t below = counted / chunks * chunks - extra,
                       above = (counted / chunks + 1) * chunks - extra;
    const std::string choice = below > 0 ? fmt::format("{} or {}", below, above) : std::to_string(above);
    fail<ConfigError>(
        "{} layers{} do not divide evenly into {} chunks ({} pipeline ranks x {} chunks): use {} layers, or "
        "give the number of layers of each chunk",
        num_layers,
        extra == 2                  ? " + embedding + head"
        : layout.embedding_as_layer ? " + embedding"
        : layout.head_as_layer      ? " + head"
                                    : "",
        chunks, layout.pipeline_ranks(), chunks / layout.pipeline_ranks(), choice);
  }
  std::vector<std::int64_t> layers(static_cast<std::size_t>(chunks), counted / chunks);
  if (layout.embedding_as_layer) --layers.front();
  if (layout.head_as_layer) --layers.back();
  require<ConfigError>(
      layers.front() >= 0 && layers.back() >= 0,
      "{} layers are too few for {} chunks with embedding and head counted as layers: use at "
      "most {} chunks",
      num_layers, chunks, counted / 2);
  return layers;
}

}  // namespace

parallel::ExpertPlace Layout::expert_place(int rank) const {
  const grid::RankGrid experts = grid.experts();
  const auto at = [&](grid::Axis axis) { return experts.coordinate(rank, axis); };
  return {at(grid::Axis::kExpert), experts.degree(grid::Axis::kExpert), at(grid::Axis::kTensor),
          experts.degree(grid::Axis::kTensor),
          grid.degree(grid::Axis::kTensor) * grid.degree(grid::Axis::kContext)};
}

std::string rank_name(const grid::RankGrid& grid, int rank) {
  std::vector<std::string> places;
  for (int a = 0; a < grid::kAxes; ++a) {
    const auto axis = static_cast<grid::Axis>(a);
    if (grid.degree(axis) > 1)
      places.push_back(fmt::format("{} {}", name_of(axis), grid.coordinate(rank, axis)));
  }
  const grid::RankGrid experts = grid.experts();
  if (experts.degree(grid::Axis::kExpert) > 1)
    places.push_back(fmt::format("ep {}", experts.coordinate(rank, grid::Axis::kExpert)));
  return places.empty() ? fmt::format("rank {}", rank)
                        : fmt::format("rank {} ({})", rank, fmt::join(places, ", "));
}

std::vector<PlacedChunk> place_chunks(const Layout& layout, std::int64_t num_layers) {
  const schedule::ChunkPlacement placement = schedule::placement_of(request_of(layout, 1));
  const std::vector<std::int64_t> layers = layers_of_chunks(layout, num_layers, placement.chunks());
  std::vector<PlacedChunk> out;
  std::int64_t first = 0;
  for (int c = 0; c < placement.chunks(); ++c) {
    out.push_back({c, placement.rank_of_chunk[c], first, layers[c], c == 0, c + 1 == placement.chunks()});
    first += layers[c];
  }
  return out;
}

std::string layer_map(const std::vector<PlacedChunk>& chunks) {
  int ranks = 0;
  for (const auto& chunk : chunks) ranks = std::max(ranks, chunk.rank + 1);
  std::string out;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::string> parts;
    for (const auto& chunk : chunks) {
      if (chunk.rank != rank) continue;
      std::vector<std::string> held;
      if (chunk.embedding) held.push_back("embedding");
      if (chunk.layers == 1) held.push_back(fmt::format("layer {}", chunk.first_layer));
      if (chunk.layers > 1)
        held.push_back(fmt::format("layers {}-{}", chunk.first_layer, chunk.first_layer + chunk.layers - 1));
      if (chunk.head) held.push_back("head");
      if (held.empty()) held.push_back("nothing");
      parts.push_back(fmt::format("{} (chunk {})", fmt::join(held, ", "), chunk.chunk));
    }
    out += fmt::format("pp {}: {}\n", rank, fmt::join(parts, "; "));
  }
  return out;
}

int first_trained_chunk(const std::vector<PlacedChunk>& chunks, std::int64_t first_trained) {
  for (const PlacedChunk& chunk : chunks)
    if (chunk.head || chunk.first_layer + chunk.layers > first_trained) return chunk.chunk;
  return 0;
}

schedule::Schedule step_schedule(const Layout& layout, std::int64_t microbatches, int trained_from) {
  schedule::Schedule steps =
      schedule::lower(schedule::generate(request_of(layout, microbatches)), {}, trained_from);
  schedule::validate(steps);
  return steps;
}

schedule::Schedule evaluation_schedule(const Layout& layout, std::int64_t microbatches) {
  const schedule::ScheduleRequest request = request_of(layout, microbatches);
  return schedule::lower(schedule::forward_only(schedule::placement_of(request), request.microbatches));
}

}  // namespace stoa::run
