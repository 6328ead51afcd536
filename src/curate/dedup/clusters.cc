#include "curate/dedup/clusters.h"

#include <numeric>

namespace stoa::curate {

std::span<const config::EnumName<Survivor>> enum_names(Survivor) {
  static constexpr config::EnumName<Survivor> kNames[] = {{"first", Survivor::kFirst},
                                                          {"longest", Survivor::kLongest}};
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

std::vector<bool> find_removed(Clusters& clusters, Survivor survivor,
                               std::span<const std::uint32_t> lengths) {
  const auto count = static_cast<std::uint32_t>(clusters.documents());
  std::vector<bool> removed(count);
  if (survivor == Survivor::kFirst) {
    for (std::uint32_t d = 0; d < count; ++d) removed[d] = clusters.root(d) != d;
    return removed;
  }
  std::vector<std::uint32_t> best(count);  // by root
  std::iota(best.begin(), best.end(), 0U);
  for (std::uint32_t d = 0; d < count; ++d) {
    std::uint32_t& chosen = best[clusters.root(d)];
    if (lengths[d] > lengths[chosen]) chosen = d;
  }
  for (std::uint32_t d = 0; d < count; ++d) removed[d] = best[clusters.root(d)] != d;
  return removed;
}

}  // namespace stoa::curate
