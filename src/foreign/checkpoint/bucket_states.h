// The state of Megatron-Core's distributed optimizer as its ranks hold it ("dp_reshardable":
// --use-distributed-optimizer in torch_dist without --dist-ckpt-optim-fully-reshardable): for each rank of a
// model one flat tensor per bucket, which holds its parameters in reverse order. The checkpoint does not say
// which parameter is where.
#pragma once

#include "foreign/checkpoint/megatron_checkpoint.h"

namespace stoa::foreign {

// Elements, at multiples of which every parameter begins in its bucket.
inline constexpr std::int64_t kBucketAlignment = 64;

// How a training cut its model among ranks.
struct RankLayout {
  std::int64_t tensor = 1, pipeline = 1, chunks = 1;  // chunks: of the model on every pipeline rank
  std::int64_t vocabulary = 0;                        // rows of the embedding, with padding
};

// Whether `source` holds such buckets.
bool holds_buckets(const ckpt::TensorSource& source);

// Adds master weights and moments out of the buckets to `out`, under the names of the parameters that a
// decoder or encoder of that shape and layout has there. `fused`: with the layers of Transformer Engine,
// where a norm belongs to the linear layer after it; otherwise with Megatron-Core's own. Empty: done;
// otherwise what does not fit, and `out` is of no use. Whether the places are right is for the caller to find
// out by comparing the master weights with those of the model.
std::string add_buckets(MegatronSources& out, const ckpt::TensorSource& source,
                        const model::ModelConfig& config, const RankLayout& layout, bool fused);

}  // namespace stoa::foreign
