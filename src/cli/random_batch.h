// Random tokens, for benchmarks.
#pragma once

#include <cstdint>

#include "data/batch.h"

namespace stoa::cli {

// `part`: ranks with different data have different tokens.
data::Batch random_batch(std::int64_t rows, std::int64_t length, std::int64_t vocabulary,
                         std::uint64_t part = 0);

}  // namespace stoa::cli
