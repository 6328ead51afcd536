// Where a rank stands and whom it talks to: an immutable value, handed down by reference.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "grid/rank_grid.h"

namespace stoa::parallel {

using grid::Axis;

class ParallelContext {
 public:
  // One communicator per axis, created up front; shared with nobody.
  ParallelContext(grid::RankGrid grid, int rank,
                  std::array<std::unique_ptr<comm::Communicator>, grid::kAxes> communicators);
  // One rank alone.
  static ParallelContext single(Device& device);

  const grid::RankGrid& grid() const { return grid_; }
  int rank() const { return rank_; }
  int degree(Axis axis) const { return grid_.degree(axis); }
  int coordinate(Axis axis) const { return grid_.coordinate(rank_, axis); }
  comm::Communicator& along(Axis axis) const { return *communicators_[static_cast<int>(axis)]; }

 private:
  grid::RankGrid grid_;
  int rank_;
  std::array<std::unique_ptr<comm::Communicator>, grid::kAxes> communicators_;
};

}  // namespace stoa::parallel
