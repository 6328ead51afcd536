#include "parallel/context_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace stoa::parallel {
namespace {

// The largest divisor of `of` that is at most `near`.
std::int64_t nearest_divisor(std::int64_t of, std::int64_t near) {
  std::int64_t divisor = std::min(of, near);
  while (of % divisor != 0) --divisor;
  return divisor;
}

}  // namespace

std::string_view name_of(ContextKind kind) { return kind == ContextKind::kAllToAll ? "a2a" : "all_gather"; }

std::vector<std::int32_t> local_tokens(const ContextPlace& place, std::int64_t rows, std::int64_t length) {
  std::vector<std::int32_t> out;
  for_each_run(place, rows, length, [&](std::int64_t, std::int64_t count, std::int64_t global) {
    for (std::int64_t i = 0; i < count; ++i) out.push_back(static_cast<std::int32_t>(global + i));
  });
  return out;
}

ContextOrder context_order(int size, std::int64_t rows, std::int64_t length) {
  ContextOrder out;
  out.to_sequence.resize(static_cast<std::size_t>(rows * length));
  for (int rank = 0; rank < size; ++rank)
    for (const std::int32_t token : local_tokens({rank, size}, rows, length)) {
      out.to_sequence[static_cast<std::size_t>(token)] = static_cast<std::int32_t>(out.to_ranks.size());
      out.to_ranks.push_back(token);
    }
  return out;
}

std::array<ContextSegments, 2> context_segments(
    const ContextPlace& place, std::int64_t rows, std::int64_t length, std::int64_t first_sample,
    const std::function<std::span<const std::int32_t>(std::int64_t row)>& boundaries) {
  std::array<ContextSegments, 2> out;
  const std::int64_t chunk = place.chunk(length);
  for (int part = 0; part < 2; ++part) {
    ContextSegments& s = out[static_cast<std::size_t>(part)];
    const std::int64_t begin = place.begin(part, length), end = begin + chunk;
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto documents = boundaries(row);
      for (std::size_t i = 0; i + 1 < documents.size(); ++i) {
        const std::int64_t first = std::max<std::int64_t>(begin, documents[i]);
        const std::int64_t last = std::min<std::int64_t>(end, documents[i + 1]);
        if (first >= last) continue;
        // Keys end where the queries do: the last query is aligned with the last key.
        s.q_begin.push_back(static_cast<std::int32_t>(row * chunk + first - begin));
        s.k_begin.push_back(static_cast<std::int32_t>(row * length + documents[i]));
        s.k_count.push_back(static_cast<std::int32_t>(last - documents[i]));
        s.position.push_back(documents[i]);
        s.sample.push_back(first_sample + row);
        s.longest_q = std::max(s.longest_q, last - first);
        s.longest_k = std::max<std::int64_t>(s.longest_k, last - documents[i]);
      }
    }
    s.q_begin.push_back(static_cast<std::int32_t>(rows * chunk));
  }
  return out;
}

void check_context(const ContextPlace& place, std::int64_t length, std::int64_t heads, std::int64_t groups) {
  require<InternalError>(place.rank >= 0 && place.rank < place.size, "rank {} of {}", place.rank, place.size);
  if (!place.split()) return;
  const std::int64_t step = 2 * place.size;
  require<ConfigError>(
      length % step == 0,
      "context_parallel_size {} cuts every sequence into {} chunks, two for each rank: its {} tokens do not "
      "divide; the nearest lengths are {}{}",
      place.size, step, length, length < step ? "" : fmt::format("{} and ", length / step * step),
      length / step * step + step);
  if (place.kind != ContextKind::kAllToAll) return;
  require<ConfigError>(
      heads % place.size == 0 && groups % place.size == 0,
      "cp_comm_type a2a deals {} heads and {} key/value heads of a tensor-parallel rank to the {} ranks of "
      "context_parallel_size, which does not divide both; the nearest that does is {}, or use all_gather",
      heads, groups, place.size, nearest_divisor(std::gcd(heads, groups), place.size));
}

}  // namespace stoa::parallel
