#include "ops/most_likely.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

#include "ops/reference/most_likely.h"
#include "ops/reference/reference_backend.h"

namespace stoa::ops {

std::int32_t most_likely_of(std::span<const float> row) {
  const auto block = static_cast<std::size_t>(kMostLikelyBlock);
  float highest = -std::numeric_limits<float>::infinity();
  std::size_t at = 0;
  for (std::size_t begin = 0; begin < row.size(); begin += block) {
    if (std::isnan(row[begin])) continue;
    for (const float logit : row.subspan(begin, std::min(block, row.size() - begin)))
      if (logit > highest) highest = logit, at = begin;
  }
  while (row[at] < highest) ++at;  // NaN ends it, too
  return static_cast<std::int32_t>(at);
}

void ReferenceBackend::execute(const MostLikely& op, Resources) {
  for (std::int64_t t = 0; t < op.logits.rows(); ++t) {
    const float* const row = op.logits.row<float>(t);
    const std::int32_t id = most_likely_of({row, static_cast<std::size_t>(op.logits.shape[1])});
    op.found.row<std::int32_t>(t)[0] = id;
    op.found.row<std::int32_t>(t)[1] = std::bit_cast<std::int32_t>(row[id]);
  }
}

}  // namespace stoa::ops
