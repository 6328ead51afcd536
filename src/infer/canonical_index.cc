#include "infer/canonical_index.h"

namespace stoa::infer {

CanonicalIndex::CanonicalIndex(const std::vector<nn::ParamSpec>& specs) {
  for (std::size_t p = 0; p < specs.size(); ++p)
    for (const auto& piece : specs[p].shard.pieces) {
      require<InternalError>(piece.begin == 0 && piece.count == (piece.global.rank() ? piece.global[0] : 1),
                             "'{}' is held in part by this rank", piece.name);
      places_[piece.name] = {{static_cast<int>(p)}, piece.memory_row, piece.count, piece.global};
    }
}

const CanonicalIndex::Place& CanonicalIndex::at(const std::string& name) const {
  const auto it = places_.find(name);
  require<InternalError>(it != places_.end(), "no parameter holds '{}'", name);
  return it->second;
}

}  // namespace stoa::infer
