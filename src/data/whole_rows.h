// Batches made by hand, for benchmarks and tests: every row is one document, every token counts; or every row
// is a pair of which the source has the first `source` tokens, and the others count (data/span_dataset.h).
#pragma once

#include <functional>
#include <utility>

#include "data/batch.h"

namespace stoa::data {

// `words(i)`: token and label of element i of the [rows, length] matrix.
Batch whole_rows(std::int64_t rows, std::int64_t length,
                 const std::function<std::pair<std::int32_t, std::int32_t>(std::int64_t i)>& words,
                 std::int64_t source = 0);

}  // namespace stoa::data
