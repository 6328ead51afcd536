#include "grid/rank_grid.h"

#include <algorithm>

#include "base/error.h"

namespace stoa::grid {

std::string_view name_of(Axis axis) {
  constexpr std::array<std::string_view, kAxes> names{"tp", "cp", "ep", "dp", "pp"};
  return names[static_cast<int>(axis)];
}

RankGrid::RankGrid(std::array<int, kAxes> degrees, ExpertDegrees experts)
    : degrees_(degrees), experts_(experts) {
  for (int a = 0; a < kAxes; ++a) {
    require<ConfigError>(degrees[a] >= 1, "the degree of {} must be at least 1, got {}",
                         name_of(static_cast<Axis>(a)), degrees[a]);
    size_ *= degrees[a];
  }
  if (experts_.tensor == 0) experts_.tensor = degree(Axis::kTensor);
  const int stage = size_ / degree(Axis::kPipeline);
  require<ConfigError>(
      experts_.tensor >= 1 && experts_.expert >= 1 && stage % (experts_.tensor * experts_.expert) == 0,
      "expert tensor parallelism {} x expert parallelism {} must divide the {} ranks of a "
      "pipeline stage",
      experts_.tensor, experts_.expert, stage);
}

RankGrid RankGrid::experts() const {
  const int stage = size_ / degree(Axis::kPipeline), stages = degree(Axis::kPipeline);
  return RankGrid({experts_.tensor, 1, experts_.expert, stage / (experts_.tensor * experts_.expert), stages});
}

int RankGrid::coordinate(int rank, Axis axis) const {
  for (int a = 0; a < static_cast<int>(axis); ++a) rank /= degrees_[a];
  return rank % degree(axis);
}

std::vector<int> RankGrid::group(int rank, std::vector<Axis> axes) const {
  std::vector<int> members;
  for (int other = 0; other < size_; ++other) {
    bool same = true;
    for (int a = 0; a < kAxes && same; ++a) {
      const Axis axis = static_cast<Axis>(a);
      if (std::find(axes.begin(), axes.end(), axis) != axes.end()) continue;
      same = coordinate(other, axis) == coordinate(rank, axis);
    }
    if (same) members.push_back(other);
  }
  return members;
}

}  // namespace stoa::grid
