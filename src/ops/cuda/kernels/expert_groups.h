// The order of rows by expert (ops::GroupByExpert, ops::GroupArrivals). Only the device knows how many there
// are of each.
#pragma once

#include "ops/cuda/kernels/element.h"

namespace stoa::ops::cuda {

inline constexpr std::int64_t kGroupChunk = 256;  // assignments of a block

// Fields as in ops::GroupByExpert.
struct GroupByExpertArgs {
  const std::int32_t* experts = nullptr;
  std::int64_t assignments = 0, expert_count = 0;
  std::int64_t members = 1, copies = 1, self = 0, each = 0;  // each: experts of a member
  std::int32_t* order = nullptr;
  std::int32_t* place = nullptr;
  std::int32_t* sorted_experts = nullptr;  // or null
  std::int32_t* counts = nullptr;          // or null
  // Workspace: [chunks, expert_count + 1], assignments of each expert and of nobody; [members * each + 1],
  // the first row of each expert of each member, and of nobody.
  std::int32_t* chunks = nullptr;
  std::int32_t* starts = nullptr;
};
void launch_group_by_expert(const GroupByExpertArgs& args, void* stream);

// Fields as in ops::GroupArrivals.
struct GroupArrivalsArgs {
  const std::int32_t* counts = nullptr;
  std::int64_t members = 0, each = 0, self = 0;
  std::int64_t rows = 0;
  std::int32_t* order = nullptr;
  std::int32_t* place = nullptr;
  std::int32_t* sorted_experts = nullptr;
  // Workspace, of every (member, expert) in the order of arrival: the first row that arrives, [members * each
  // + 1]; its place, [members * each].
  std::int32_t* arrivals = nullptr;
  std::int32_t* places = nullptr;
};
void launch_group_arrivals(const GroupArrivalsArgs& args, void* stream);

}  // namespace stoa::ops::cuda
