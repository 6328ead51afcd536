// Memory of a chunk's constants (rotary tables): declared, filled once, bound.
#pragma once

#include <vector>

#include "infer/machine.h"
#include "model/chunk.h"

namespace stoa::infer {

class ChunkConstants {
 public:
  ChunkConstants(Arena& arena, const model::Chunk& chunk);
  // After the arena was committed. `sequence`: the longest sequence of this use.
  void fill(Machine& machine, Arena& arena, model::Chunk& chunk, std::int64_t sequence) const;
  // Constant number i of the chunk.
  TensorView view(Arena& arena, std::size_t i) const { return arena.view(ids_[i]); }

 private:
  std::vector<Arena::Id> ids_;
};

}  // namespace stoa::infer
