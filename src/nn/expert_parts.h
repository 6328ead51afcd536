// Which rows the ranks of an expert-parallel group exchange at once. Arithmetic on the host only.
//
// A rank's memory is declared for a multiple of an even load. Rows beyond come in further parts, each handled
// by itself. The rows of a rank, sorted by expert (ops::GroupArrivals), are cut into consecutive parts; an
// expert's rows are cut only where sums over rows can be continued (ops::kRowsTogether), so that no bit of a
// result shows the cut. All members take as many parts, some of them empty.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/moe.h"

namespace stoa::nn {

// Most rows that come at once: in the first part, whose activations are kept, and in the later ones. At least
// kFewest each.
struct PartRows {
  static constexpr std::int64_t kFewest = 2 * ops::kRowsTogether;
  std::int64_t first = 0, later = 0;
};

// Rows of a part that belong to experts with rows in other parts, too.
struct RowCut {
  std::int64_t head = 0, head_expert = -1;  // the first rows, of an expert begun before
  bool head_ends = false;                   // no more of its rows follow
  std::int64_t tail = 0, tail_expert = -1;  // the last rows, of another expert that continues
};

struct ExpertPart {
  std::vector<std::int64_t> sends, comes;  // rows to and from each member; not this rank's own
  std::int64_t own = 0, sent = 0, arrived = 0;
  std::int64_t begin = 0;            // where its own and sent rows begin in the order of parts
  std::vector<std::int32_t> counts;  // [members, M]: rows that come, own ones too, for each expert
  RowCut cut;

  std::int64_t came() const { return arrived + own; }
};

// `loads` [members, members, M]: rows that each member has for each expert of each member.
std::vector<ExpertPart> expert_parts(const ops::ExpertMembers& members, std::span<const std::int32_t> loads,
                                     PartRows most);

// For every row in the order of parts (in each: own, then by member), its place in the order of
// ops::GroupByExpert, which has `rows`; unused rows stay last.
std::vector<std::int32_t> order_of_parts(const std::vector<ExpertPart>& parts, std::int64_t self,
                                         std::int64_t rows);

}  // namespace stoa::nn
