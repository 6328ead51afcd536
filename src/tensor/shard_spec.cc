#include "tensor/shard_spec.h"

#include <algorithm>

namespace stoa {

ShardSpec ShardSpec::whole(std::string name, Shape shape) {
  ShardSpec spec;
  spec.local = shape;
  ShardPiece piece;
  piece.name = std::move(name);
  piece.global = shape;
  piece.count = shape.rank() == 0 ? 1 : shape[0];
  piece.column_count = shape.rank() >= 2 ? shape.inner() : 0;
  spec.pieces.push_back(std::move(piece));
  return spec;
}

std::int64_t ShardSpec::canonical_elements() const {
  std::int64_t total = 0;
  for (const auto& piece : pieces) total += piece.count * std::max<std::int64_t>(1, piece.column_count);
  return total;
}

}  // namespace stoa
