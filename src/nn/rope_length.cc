#include "nn/rope_length.h"

#include <cmath>

namespace stoa::nn {

std::optional<std::int64_t> rope_length_limit(const RopeOptions& o) {
  if (o.kind == RopeKind::kDynamic) return o.max_positions;
  if (o.kind == RopeKind::kLongrope) return o.original_positions.value_or(o.max_positions);
  return std::nullopt;
}

bool one_rope_beyond_limit(const RopeOptions& o) { return o.kind == RopeKind::kLongrope; }

std::vector<double> rope_rows(const RopeOptions& o, std::int64_t first, std::int64_t count,
                              std::int64_t sequence) {
  const std::vector<double> frequencies = rope_frequencies(o, sequence);
  const double factor = rope_attention_factor(o);
  const std::size_t pairs = frequencies.size();
  std::vector<double> rows(static_cast<std::size_t>(count) * 2 * pairs);
  for (std::size_t p = 0; p < static_cast<std::size_t>(count); ++p)
    for (std::size_t i = 0; i < pairs; ++i) {
      const double angle = static_cast<double>(first + static_cast<std::int64_t>(p)) * frequencies[i];
      rows[(2 * p) * pairs + i] = factor * std::cos(angle);
      rows[(2 * p + 1) * pairs + i] = factor * std::sin(angle);
    }
  return rows;
}

}  // namespace stoa::nn
