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

// How the experts of a layer are distributed, independently of all other axes: each expert is cut into
// `tensor` parts (0: one per tensor-parallel rank), and the experts are distributed over `expert` groups of
// that many ranks.
struct ExpertDegrees {
  int tensor = 0, expert = 1;
};

class RankGrid {
 public:
  // `degrees[axis]` >= 1. ConfigError when one is not, or when the experts' degrees do not divide the ranks
  // of a pipeline stage.
  explicit RankGrid(std::array<int, kAxes> degrees, ExpertDegrees experts = {});
  static RankGrid single() { return RankGrid({1, 1, 1, 1, 1}); }

  int size() const { return size_; }
  int degree(Axis axis) const { return degrees_[static_cast<int>(axis)]; }
  // The same ranks in the axes of the experts, in Megatron's order: parts of an expert (tp), experts (ep),
  // copies (dp), stages. There tp x ep x dp is what tp x cp x dp is here: the experts may be distributed over
  // the ranks of any of these axes.
  RankGrid experts() const;
  // Coordinate of a rank along an axis.
  int coordinate(int rank, Axis axis) const;
  // Ranks that share every coordinate with `rank` but those of `axes`, in ascending order.
  std::vector<int> group(int rank, std::vector<Axis> axes) const;

 private:
  std::array<int, kAxes> degrees_;
  ExpertDegrees experts_;
  int size_ = 1;
};

}  // namespace stoa::grid
