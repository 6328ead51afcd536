// How a model is spread over ranks: degrees of every axis, the pipeline's schedule, and how state is sharded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "grid/rank_grid.h"
#include "schedule/action.h"

namespace stoa::run {

struct Layout {
  grid::RankGrid grid = grid::RankGrid::single();
  bool sequence_parallel = false;

  // Pipeline.
  std::string schedule = "1f1b";     // of schedule::schedule_names()
  int chunks = 1;                    // of layers per pipeline rank (virtual pipeline size)
  int microbatch_group = 0;          // of interleaved schedules; 0: as many as pipeline ranks
  std::vector<std::int64_t> layers;  // of every chunk in model order; empty: even
  bool embedding_as_layer = false;   // the even rule counts the embedding, the head as a layer
  bool head_as_layer = false;

  // Data parallelism.
  int zero_stage = 0;  // 0: all is replicated; 1 optimizer, 2 gradients, 3 parameters sharded
  std::int64_t bucket_bytes =
      160 << 20;                     // of gradients that are reduced at once (Megatron: 40 M fp32 numbers)
  bool overlap_grad_reduce = false;  // buckets are reduced while backward goes on
};

// The lowered, validated schedule of a step of so many microbatches. ConfigError names the nearest valid
// number where the schedule cannot run them.
schedule::Schedule step_schedule(const Layout& layout, std::int64_t microbatches);

}  // namespace stoa::run
