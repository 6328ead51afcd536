// What a rank of a tensor-parallel group holds: which heads, columns, ids and rows. Arithmetic only.
#pragma once

#include <cstdint>

namespace stoa::parallel {

// A rank's place in its tensor-parallel group.
struct TensorPlace {
  int rank = 0, size = 1;
  // The residual stream, its norms and its dropout are split by tokens among the ranks (sequence parallelism,
  // Korthikanti et al. 2022, section 4.2.2); otherwise every rank holds all of it.
  bool sequence = false;
  // Every sum has the order that it has on one rank: matrices whose products would be partial sums are split
  // by outputs instead, and what is split is gathered (nn/linear.h). For inference, without `sequence`.
  bool exact = false;

  bool split() const { return size > 1; }
  bool splits_stream() const { return sequence && size > 1; }
  // Rows of the residual stream that a rank holds of `tokens`, and the first of them.
  std::int64_t stream_rows(std::int64_t tokens) const { return splits_stream() ? tokens / size : tokens; }
  std::int64_t first_row(std::int64_t tokens) const { return splits_stream() ? tokens / size * rank : 0; }
};

// Consecutive elements [begin, begin + count).
struct Part {
  std::int64_t begin = 0, count = 0;
  std::int64_t end() const { return begin + count; }
};

// The part of `index` when `total` is cut into `parts`, as even as possible, the longer ones first.
Part part_of(std::int64_t total, int parts, int index);

// The query heads of a rank, and the key/value heads that they read. With fewer groups than ranks, the ranks
// are distributed over the groups, and those of one group share its key/value head: each holds a copy, and
// gradients of copies are partial sums.
struct HeadPart {
  Part heads, groups;
  bool shared = false;     // there are fewer groups than ranks: groups have copies
  bool first_copy = true;  // this rank is the lowest of those that hold these groups
};
HeadPart head_part(std::int64_t heads, std::int64_t groups, const TensorPlace& place);

// What a group of ranks is asked to split.
struct TensorSplit {
  std::int64_t heads = 0, ffn = 0, vocabulary = 0;
  std::int64_t tokens = 0;  // of a microbatch; 0: not known yet
};
// ConfigError: more ranks than heads, feed-forward columns or ids; tokens that sequence parallelism cannot
// split evenly.
void check_split(const TensorPlace& place, const TensorSplit& split);

}  // namespace stoa::parallel
