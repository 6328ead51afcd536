#include "infer/constants.h"

#include <algorithm>

#include "infer/host_window.h"

namespace stoa::infer {

ChunkConstants::ChunkConstants(Arena& arena, const model::Chunk& chunk) {
  for (const auto& constant : chunk.constants())
    ids_.push_back(arena.declare(MemoryCategory::kWeights, constant.tensor));
}

void ChunkConstants::fill(Machine& machine, Arena& arena, model::Chunk& chunk, std::int64_t sequence) const {
  std::vector<TensorView> views;
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    views.push_back(arena.view(ids_[i]));
    write_tensor(machine, views.back(), [&](TensorView host) {
      const auto bytes = chunk.constants()[i].bytes(sequence);
      std::copy(bytes.begin(), bytes.end(), static_cast<std::byte*>(host.data));
    });
  }
  chunk.bind_constants(std::move(views));
}

}  // namespace stoa::infer
