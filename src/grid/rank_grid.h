// Which rank is where: axes, coordinates and groups. Pure arithmetic.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace stoa::grid {

// Axes from the fastest to the slowest, in Megatron's default order "tp-cp-ep-dp-pp" (parallel_state.py).
enum class Axis : std::uint8_t { kTensor, kContext, kExpert, kData, kPipeline, kCount };
constexpr int kAxes = static_cast<int>(Axis::kCount);
std::string_view name_of(Axis axis);  // "tp", "cp", "ep", "dp", "pp"

class RankGrid {
 public:
  // `degrees[axis]` >= 1. ConfigError when one is not.
  explicit RankGrid(std::array<int, kAxes> degrees);
  static RankGrid single() { return RankGrid({1, 1, 1, 1, 1}); }

  int size() const { return size_; }
  int degree(Axis axis) const { return degrees_[static_cast<int>(axis)]; }
  // Coordinate of a rank along an axis.
  int coordinate(int rank, Axis axis) const;
  // Ranks that share every coordinate with `rank` but those of `axes`, in ascending order.
  std::vector<int> group(int rank, std::vector<Axis> axes) const;

 private:
  std::array<int, kAxes> degrees_;
  int size_ = 1;
};

}  // namespace stoa::grid
