// How the ranks that hold the same parameters share the work of a step (Rajbhandari et al. 2020, ZeRO).
#pragma once

#include <algorithm>
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
  std::int64_t bucket_bytes = 160 << 20;  // size of the buckets in which gradients are reduced
  bool overlap = false;                   // wait for reductions and gathers as late as possible
  // Stages 2 and 3: gradients are reduced after every microbatch, into shards, so that no whole gradient is
  // held. The sum over ranks then comes before the sum over microbatches. Otherwise a gradient is held whole
  // until the last microbatch, and every stage adds in the same order.
  bool each_microbatch = false;
  std::optional<DType> reduce_type = std::nullopt;  // in which gradients are sent; default: as held

  // Among the ranks that hold the same elements (nn::ParamSpec::copies): their number, and this rank's index.
  int shards(parallel::Group copies) const { return parallel.along(copies).size(); }
  int shard(parallel::Group copies) const { return parallel.along(copies).rank(); }
  // Whether ZeRO stage `stage` is active; parameters that a single rank holds then have one shard.
  bool sharded(int stage) const {
    return zero_stage >= stage &&
           std::max(shards(parallel::Group::kDataContext), shards(parallel::Group::kExpertData)) > 1;
  }
  bool gradient_shards() const { return sharded(2) && each_microbatch; }
};

}  // namespace stoa::optim
