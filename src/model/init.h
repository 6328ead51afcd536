// Initial values of parameters.
#pragma once

#include <cstdint>
#include <optional>

#include "base/worker_pool.h"
#include "nn/param.h"

namespace stoa::model {

// Fills `values` (host memory of the shard's local shape, or with `flat` of that range of its elements; any
// floating-point type; of a packed parameter its bytes) for a parameter: every canonical element is deviation * normal(key(seed, kInit, canonical name), index in the canonical tensor),
// one or zero, times the factors of its scale; padding is zero. The work is shared by the pool's threads; the
// result does not depend on their number.
void initialize(const nn::ParamSpec& spec, std::uint64_t seed, TensorView values, WorkerPool& pool,
                const std::optional<FlatRange>& flat = std::nullopt);

}  // namespace stoa::model
