#include "parallel/context_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

std::string_view name_of(ContextKind kind) {
  constexpr std::array<std::string_view, 4> names{"all_gather", "a2a", "p2p", "a2a+p2p"};
  return names[static_cast<std::size_t>(kind)];
}

std::vector<std::int32_t> local_tokens(const ContextPlace& place, std::int64_t rows, std::int64_t length) {
  std::vector<std::int32_t> out;
  for_each_run(place, rows, length, [&](std::int64_t, std::int64_t count, std::int64_t global) {
    for (std::int64_t i = 0; i < count; ++i) out.push_back(static_cast<std::int32_t>(global + i));
  });
  return out;
}

ContextOrder context_order(const ContextPlace& place, std::int64_t rows, std::int64_t length) {
  ContextOrder out;
  if (place.kind == ContextKind::kRing) return out;
  const bool gather = place.kind == ContextKind::kAllGather;
  const int members = gather ? place.size : place.exchanging();
  const int first = gather ? 0 : place.outer().rank * members;
  const std::vector<std::int32_t> wanted =
      local_tokens(gather ? ContextPlace{} : place.outer(), rows, length);
  std::vector<std::int32_t> at(static_cast<std::size_t>(rows * length));  // by global token
  for (std::size_t i = 0; i < wanted.size(); ++i)
    at[static_cast<std::size_t>(wanted[i])] = static_cast<std::int32_t>(i);
  out.to_attention.resize(wanted.size());
  for (int rank = first; rank < first + members; ++rank)
    for (const std::int32_t token : local_tokens({rank, place.size}, rows, length)) {
      const std::int32_t to = at[static_cast<std::size_t>(token)];
      out.to_attention[static_cast<std::size_t>(to)] = static_cast<std::int32_t>(out.to_ranks.size());
      out.to_ranks.push_back(to);
    }
  return out;
}

std::vector<ContextBlock> context_blocks(const ContextPlace& place, std::int64_t length) {
  const ContextPlace outer = place.outer();
  if (!outer.split()) return {{0, 0, 0, 0, length, 0, length}};
  const std::int64_t chunk = outer.chunk(length);
  std::vector<ContextBlock> out;
  if (outer.kind == ContextKind::kAllGather) {
    for (int part = 0; part < 2; ++part)
      out.push_back({0, part, 0, outer.begin(part, length), chunk, 0, length});
    return out;
  }
  for (int step = 0; step < outer.size; ++step) {
    const ContextPlace source{(outer.rank - step + outer.size) % outer.size, outer.size};
    for (int k = 0; k < 2; ++k)
      for (int q = 0; q < 2; ++q)
        if (source.begin(k, length) <= outer.begin(q, length))
          out.push_back({step, q, k, outer.begin(q, length), chunk, source.begin(k, length), chunk});
  }
  return out;
}

void ContextSegments::fill(const ContextBlock& block, std::int64_t rows, std::int64_t first_sample,
                           const std::function<std::span<const std::int32_t>(std::int64_t row)>& boundaries) {
  for (auto* values : {&q_begin, &k_begin, &k_count, &position, &behind}) values->clear();
  sample.clear();
  longest_q = longest_k = 0;
  const std::int64_t q_end = block.q_begin + block.q_count, k_end = block.k_begin + block.k_count;
  std::int64_t keys_used = 0;  // segments without keys stand between those with keys
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto documents = boundaries(row);
    for (std::size_t i = 0; i + 1 < documents.size(); ++i) {
      const std::int64_t first = std::max<std::int64_t>(block.q_begin, documents[i]),
                         last = std::min<std::int64_t>(q_end, documents[i + 1]);
      if (first >= last) continue;
      const std::int64_t from = std::max<std::int64_t>(block.k_begin, documents[i]);
      const std::int64_t to =
          std::max(from, std::min(k_end, last));  // keys after the last query are not seen
      const std::int64_t keys = to - from;
      if (keys > 0) keys_used = row * block.k_count + from - block.k_begin;
      q_begin.push_back(static_cast<std::int32_t>(row * block.q_count + first - block.q_begin));
      k_begin.push_back(static_cast<std::int32_t>(keys_used));
      k_count.push_back(static_cast<std::int32_t>(keys));
      position.push_back(static_cast<std::int32_t>(from));
      behind.push_back(static_cast<std::int32_t>(last - to));
      sample.push_back(first_sample + row);
      longest_q = std::max(longest_q, last - first);
      longest_k = std::max(longest_k, keys);
      keys_used += keys;
    }
  }
  q_begin.push_back(static_cast<std::int32_t>(rows * block.q_count));
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
  const int ranks = place.exchanging();
  require<ConfigError>(ranks >= 1 && place.size % ranks == 0,
                       "cp_comm_type a2a+p2p: groups of {} ranks do not divide context_parallel_size {}; the "
                       "nearest size is {}",
                       ranks, place.size, nearest_divisor(place.size, std::max(1, ranks)));
  require<ConfigError>(heads % ranks == 0 && groups % ranks == 0,
                       "cp_comm_type {} distributes {} heads and {} key/value heads of a tensor-parallel "
                       "rank to {} ranks, which "
                       "does not divide both; the nearest number that does is {}, or use p2p",
                       name_of(place.kind), heads, groups, ranks,
                       nearest_divisor(std::gcd(heads, groups), ranks));
}

}  // namespace stoa::parallel
