// How a model is distributed: the degrees of all axes, the pipeline schedule, and how state is sharded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "grid/rank_grid.h"
#include "parallel/context_place.h"
#include "parallel/expert_place.h"
#include "schedule/action.h"
#include "tensor/dtype.h"

namespace stoa::run {

struct Layout {
  grid::RankGrid grid = grid::RankGrid::single();
  bool sequence_parallel = false;
  parallel::ContextKind context_kind = parallel::ContextKind::kAllGather;
  int context_neighbours = 1;  // kHierarchical: ranks that exchange tokens for heads

  // Pipeline.
  std::string schedule = "1f1b";     // of schedule::run_schedule_names()
  int chunks = 0;                    // of layers per pipeline rank; 0: the schedule's default
  int microbatch_group = 0;          // interleaved schedules; 0: number of pipeline ranks
  std::vector<std::int64_t> layers;  // of every chunk in model order; empty: even
  bool embedding_as_layer = false;   // the even split counts embedding, head as a layer
  bool head_as_layer = false;

  // Data parallelism.
  int zero_stage = 0;  // 1: optimizer state is sharded, 2: gradients too, 3: parameters too
  std::int64_t bucket_bytes = 160 << 20;  // of gradients reduced at once (Megatron: 40 M fp32 numbers)
  bool overlap_grad_reduce = false;       // buckets are reduced while backward still runs
  // Stages 2 and 3 with several microbatches: gradients are reduced into shards after each one (less memory,
  // a different order of additions) instead of being held whole until the last (stage 0's bits).
  bool reduce_each_microbatch = false;
  std::optional<DType> grad_reduce_type;  // in which gradients are sent; default: as held

  parallel::ContextPlace context_place(int rank) const {
    return {grid.coordinate(rank, grid::Axis::kContext), grid.degree(grid::Axis::kContext), context_kind,
            context_neighbours};
  }
  int pipeline_ranks() const { return grid.degree(grid::Axis::kPipeline); }
  // The number of ranks that see different samples, and a rank's index among them.
  int data_ranks() const { return grid.degree(grid::Axis::kData); }
  int data_rank(int rank) const { return grid.coordinate(rank, grid::Axis::kData); }
  // The experts, or parts of them, that a rank holds.
  parallel::ExpertPlace expert_place(int rank) const;
};

// A chunk of the model and its place.
struct PlacedChunk {
  int chunk = 0;  // number in model order
  int rank = 0;   // pipeline rank
  std::int64_t first_layer = 0, layers = 0;
  bool embedding = false, head = false;
};

// "rank 5 (tp 1, pp 1)": only axes with more than one rank.
std::string rank_name(const grid::RankGrid& grid, int rank);

// The place of every chunk of a model. By Megatron's rule chunks hold equally many layers, where the
// embedding (in the first) and the head (in the last) count as a layer each if the layout says so; otherwise
// as `layers` says. ConfigError names the rule, the numbers and the nearest valid choices.
std::vector<PlacedChunk> place_chunks(const Layout& layout, std::int64_t num_layers);
// "pp 0: embedding, layers 0-2 (chunk 0); layers 6-8 (chunk 2)", one line per pipeline rank.
std::string layer_map(const std::vector<PlacedChunk>& chunks);

// The first chunk with a backward pass, where the model's layers before `first_trained` and what is in front
// of them have none (model::first_trained_layer).
int first_trained_chunk(const std::vector<PlacedChunk>& chunks, std::int64_t first_trained);

// The lowered, validated schedule of a step of `microbatches` microbatches per rank, in which chunks before
// `trained_from` run forward only. ConfigError names the nearest valid number if the schedule cannot run
// them.
schedule::Schedule step_schedule(const Layout& layout, std::int64_t microbatches, int trained_from = 0);
// The same for an evaluation.
schedule::Schedule evaluation_schedule(const Layout& layout, std::int64_t microbatches);

}  // namespace stoa::run
