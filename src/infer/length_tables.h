// Rotary tables that depend on the sequence length (nn/rope_length.h): short and long factors of longrope,
// the stretched base of dynamic scaling.
#pragma once

#include <vector>

#include "infer/constants.h"
#include "model/model_spec.h"

namespace stoa::infer {

class LengthTables {
 public:
  explicit LengthTables(const model::ModelConfig& config);

  // False: the same tables serve every length, and the functions below have no effect.
  bool any() const { return any_; }
  // Whether keys rotated for a sequence of `before` positions must be recomputed for one of `now`: when
  // longrope switches its factors, in either direction, as transformers does for Phi-3; and when dynamic
  // scaling no longer stretches the tables.
  bool remakes_keys(std::int64_t before, std::int64_t now) const;
  // Writes rows [first, first + count) of the tables for a sequence of `length`.
  void write(Machine& machine, Arena& arena, const ChunkConstants& constants, std::int64_t first,
             std::int64_t count, std::int64_t length) const;

 private:
  std::vector<nn::RopeOptions> ropes_;  // in the order of the chunk's constants
  bool any_ = false;
};

// The longest usable sequence: the model's positions, or the length to which dynamic scaling stretches them.
std::int64_t usable_positions(const model::ModelConfig& config);
// The longest source or target that an encoder-decoder of such positions reads, where `most` are asked for;
// none: as many as its configuration says. Relative positions set no limit.
std::int64_t longest_side(const model::ModelConfig& config, std::optional<std::int64_t> most);

}  // namespace stoa::infer
