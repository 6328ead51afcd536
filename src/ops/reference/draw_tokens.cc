#include "ops/draw_tokens.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <vector>

#include "ops/reference/most_likely.h"
#include "ops/reference/reference_backend.h"
#include "ops/token_draw.h"

namespace stoa::ops {
namespace {

struct DrawnCandidate {
  std::int32_t id;
  float logit;
  std::uint32_t distance;
};

// How many of the first candidates weigh up to `enough`, and more than nothing.
std::size_t reaching(std::span<const std::uint64_t> weights, std::uint64_t enough) {
  std::size_t count = 0;
  for (std::uint64_t sum = 0; count < weights.size() && sum < enough; ++count) sum += weights[count];
  return count;
}

std::uint64_t sum_of(std::span<const std::uint64_t> weights) {
  std::uint64_t sum = 0;
  for (const std::uint64_t weight : weights) sum += weight;
  return sum;
}

// Everything sorted, step by step.
std::int32_t drawn_from(std::span<const float> row, const TokenDraw& draw) {
  const std::int32_t best = most_likely_of(row);
  const float highest = row[static_cast<std::size_t>(best)];
  if (!std::isfinite(highest)) return best;
  std::vector<DrawnCandidate> order;
  for (std::size_t i = 0; i < row.size(); ++i)
    if (const std::uint32_t distance = token_distance(highest, row[i], draw.cut_scale);
        distance != kNoToken && (draw.near_first == 0 || distance <= draw.farthest))
      order.push_back({static_cast<std::int32_t>(i), row[i], distance});
  std::stable_sort(order.begin(), order.end(),
                   [](const DrawnCandidate& a, const DrawnCandidate& b) { return a.logit > b.logit; });
  if (draw.top_k > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(draw.top_k)));
  const int bits = weight_bits(static_cast<std::int64_t>(row.size()));
  std::vector<std::uint64_t> cut, drawn;
  for (const DrawnCandidate& c : order) {
    cut.push_back(token_weight(c.distance, bits));
    drawn.push_back(token_weight(token_distance(highest, c.logit, draw.draw_scale), bits));
  }
  std::size_t kept = order.size();
  if (draw.top_p > 0) kept = reaching(cut, least_of_sum(sum_of(cut), draw.top_p));
  while (kept > 1 && order[kept - 1].distance > draw.farthest) --kept;
  const auto left = std::span(drawn).first(kept);
  return order[reaching(left, part_of_sum(sum_of(left), draw.word) + 1) - 1].id;
}

}  // namespace

void ReferenceBackend::execute(const DrawTokens& op, Resources) {
  for (std::int64_t d = 0; d < op.draws.rows(); ++d) {
    const TokenDraw draw = draw_of(op.draws, d);
    const float* const row = op.logits.row<float>(draw.row);
    const std::int32_t id = drawn_from({row, static_cast<std::size_t>(op.logits.shape[1])}, draw);
    op.found.row<std::int32_t>(d)[0] = id;
    op.found.row<std::int32_t>(d)[1] = std::bit_cast<std::int32_t>(row[id]);
  }
}

}  // namespace stoa::ops
