// Which documents are copies of one another, and which one of them stays.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/schema.h"

namespace stoa::curate {

enum class Survivor { kFirst, kLongest, kBest };  // of equally long or good ones the first
std::span<const config::EnumName<Survivor>> enum_names(Survivor);

// Sets of documents that grow together. Four bytes per document.
class Clusters {
 public:
  explicit Clusters(std::size_t documents);
  void join(std::uint32_t a, std::uint32_t b);
  // The first document of the cluster.
  std::uint32_t root(std::uint32_t document);
  std::size_t documents() const { return parents_.size(); }

 private:
  std::vector<std::uint32_t> parents_;  // of smaller or equal number
};

// A number that is larger for the better of two scores; that of NaN is smaller than all.
std::uint32_t rank_of_score(double score);

// For every document whether another one of its cluster stays in its place. `ranks`: by document, the largest
// stays; empty: the first stays.
std::vector<bool> find_removed(Clusters& clusters, std::span<const std::uint32_t> ranks);

}  // namespace stoa::curate
