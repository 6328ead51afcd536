// A rank's place and its communicators: an immutable value, passed by reference.
#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "grid/rank_grid.h"

namespace stoa::parallel {

using grid::Axis;

// Who takes part in a communication: the ranks along one axis, or along several at once.
enum class Group : std::uint8_t {
  kTensor,
  kContext,
  kExpert,  // ranks that together hold all experts of their layers once: over parts and experts
  kData,
  kPipeline,
  kDataContext,   // ranks that hold the same dense parameters: over cp and dp
  kExpertData,    // ranks that hold the same parts of the same experts
  kExpertTensor,  // ranks that hold the parts of the same experts
  kEmbedding,     // first and last pipeline stage, which hold a copy each of a tied embedding
  kModel,         // tp x pp: together they hold the model once
  kWorld,
  kCount
};
constexpr int kGroups = static_cast<int>(Group::kCount);
std::string_view name_of(
    Group group);  // "tp", …, "dp-cp", "expert dp", "expert tp", "embedding", "model", "world"
constexpr Group group_of(Axis axis) { return static_cast<Group>(axis); }
// World ranks of the group that `rank` belongs to, ascending; empty when it belongs to none (kEmbedding
// between the ends of a pipeline).
std::vector<int> members(const grid::RankGrid& grid, int rank, Group group);

class ParallelContext {
 public:
  using Communicators = std::array<std::unique_ptr<comm::Communicator>, kGroups>;
  // One communicator per group, created up front and not shared; none where members() is empty.
  ParallelContext(grid::RankGrid grid, int rank, Communicators communicators);
  // A single rank.
  static ParallelContext single(Device& device);

  const grid::RankGrid& grid() const { return grid_; }
  int rank() const { return rank_; }
  int degree(Axis axis) const { return grid_.degree(axis); }
  int coordinate(Axis axis) const { return grid_.coordinate(rank_, axis); }
  comm::Communicator& along(Axis axis) const { return along(group_of(axis)); }
  bool belongs_to(Group group) const { return static_cast<bool>(communicators_[static_cast<int>(group)]); }
  // InternalError when this rank does not belong to it.
  comm::Communicator& along(Group group) const;

 private:
  grid::RankGrid grid_;
  int rank_;
  Communicators communicators_;
};

}  // namespace stoa::parallel
