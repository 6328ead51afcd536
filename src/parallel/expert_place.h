// What a rank holds of the experts of a layer. Arithmetic only.
#pragma once

#include <cstdint>

#include "parallel/tensor_place.h"

namespace stoa::parallel {

// A rank's place among the ranks that together hold all experts of a layer once: `size` groups hold equally
// many experts each (expert parallelism, GShard 2006.16668), in which every rank holds one of `tensor_size`
// parts of every expert (columns of its inner width). Members of Group::kExpert count parts first.
struct ExpertPlace {
  int rank = 0, size = 1;
  int tensor_rank = 0, tensor_size = 1;
  int ranks_per_sample = 1;  // tensor and context ranks, which have parts of the same samples
  // Every member has all tokens (inference): no rows are exchanged, and the members' outputs are added up.
  bool replicated = false;

  int members() const { return size * tensor_size; }
  int member() const { return rank * tensor_size + tensor_rank; }
  bool split() const { return members() > 1; }
  // Different samples of which its members, consecutive ranks, have parts at once; at most.
  int samples() const {
    if (ranks_per_sample % members() == 0) return 1;
    if (members() % ranks_per_sample == 0) return members() / ranks_per_sample;
    return (members() - 2) / ranks_per_sample + 2;
  }
  Part experts(std::int64_t total) const { return part_of(total, size, rank); }
  Part columns(std::int64_t width) const { return part_of(width, tensor_size, tensor_rank); }
};

// ConfigError: experts that cannot be distributed evenly, parts without a column.
void check_experts(const ExpertPlace& place, std::int64_t experts, std::int64_t width);

}  // namespace stoa::parallel
