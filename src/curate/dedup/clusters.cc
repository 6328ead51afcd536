#include "curate/dedup/clusters.h"

#include <bit>
#include <cmath>
#include <numeric>

namespace stoa::curate {

std::span<const config::EnumName<Survivor>> enum_names(Survivor) {
  static constexpr config::EnumName<Survivor> kNames[] = {
      {"first", Survivor::kFirst}, {"longest", Survivor::kLongest}, {"best", Survivor::kBest}};
  return kNames;
}

Clusters::Clusters(std::size_t documents) : parents_(documents) {
  std::iota(parents_.begin(), parents_.end(), 0U);
}

std::uint32_t Clusters::root(std::uint32_t document) {
  while (parents_[document] != document) {
    parents_[document] = parents_[parents_[document]];  // halves the path
    document = parents_[document];
  }
  return document;
}

void Clusters::join(std::uint32_t a, std::uint32_t b) {
  a = root(a);
  b = root(b);
  if (a < b) parents_[b] = a;
  if (b < a) parents_[a] = b;
}

std::uint32_t rank_of_score(double score) {
  if (std::isnan(score)) return 0;
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(score));
  // Floating-point numbers sort as their bits do, those below zero the other way round.
  return bits >> 31 ? ~bits : bits | 0x8000'0000U;
}

std::vector<bool> find_removed(Clusters& clusters, std::span<const std::uint32_t> ranks) {
  const auto count = static_cast<std::uint32_t>(clusters.documents());
  std::vector<bool> removed(count);
  if (ranks.empty()) {
    for (std::uint32_t d = 0; d < count; ++d) removed[d] = clusters.root(d) != d;
    return removed;
  }
  std::vector<std::uint32_t> best(count);  // by root
  std::iota(best.begin(), best.end(), 0U);
  for (std::uint32_t d = 0; d < count; ++d) {
    std::uint32_t& chosen = best[clusters.root(d)];
    if (ranks[d] > ranks[chosen]) chosen = d;
  }
  for (std::uint32_t d = 0; d < count; ++d) removed[d] = best[clusters.root(d)] != d;
  return removed;
}

}  // namespace stoa::curate
