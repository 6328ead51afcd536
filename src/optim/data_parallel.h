// How the ranks that hold the same parameters share the work of a step (Rajbhandari et al. 2020, ZeRO).
#pragma once

#include <cstdint>
#include <optional>

#include "parallel/parallel_context.h"
#include "tensor/shard_spec.h"

namespace stoa::optim {

struct DataParallel {
  const parallel::ParallelContext& parallel;
  Stream& stream;
  // 0: all is replicated. 1: optimizer state and masters are sharded. 2: and gradients. 3: and parameters.
  int zero_stage = 0;
  std::int64_t bucket_bytes = 160 << 20;  // of gradients that are reduced at once
  bool overlap = false;                   // reductions and gathers are waited for as late as possible
  // Stages 2 and 3: gradients are reduced after every microbatch, into shards, so that no whole gradient is
  // held. The sum over ranks then comes before the sum over microbatches. Otherwise a gradient is held whole
  // until the last microbatch, and every stage adds in the same order.
  bool each_microbatch = false;
  std::optional<DType> reduce_type = std::nullopt;  // in which gradients travel; default: as they are held

  comm::Communicator& group() const { return parallel.along(parallel::Group::kDataContext); }
  int shards() const { return group().size(); }
  int shard() const { return group().rank(); }
  // Whether what stage `stage` shards is sharded.
  bool sharded(int stage) const { return zero_stage >= stage && shards() > 1; }
  bool gradient_shards() const { return sharded(2) && each_microbatch; }
};

}  // namespace stoa::optim
