// How a tensor in a rank's memory relates to the global, canonical tensors, which names, files and norms
// refer to.
//
// Canonical tensors are unfused, untransposed and unpadded: `layers.0.attention.q.weight` [heads*d,
// hidden]. A rank's tensor may fuse several of them (q, k, v in one matrix), hold a part of each (tensor
// parallelism) and add padding. Tensor parallelism, ZeRO, checkpoints, norms and the planner all use this
// description.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor/shape.h"

namespace stoa {

// Rows [begin, begin + count) of a canonical tensor are rows [memory_row, …) of the local tensor, with all
// columns unless column_count is smaller. A vector is a matrix with one column per row.
struct ShardPiece {
  std::string name;             // canonical name
  Shape global;                 // canonical shape
  std::int64_t begin = 0;       // first canonical row held
  std::int64_t count = 0;       // canonical rows held
  std::int64_t memory_row = 0;  // first local row
  std::int64_t column_begin = 0;
  std::int64_t column_count = 0;  // columns held (0: vectors have none)
  // Tensor parallelism: several ranks of the group may hold copies of the same elements (then `shared` on all
  // of them). The first of these ranks counts them in norms and writes them to files.
  bool shared = false, first_copy = true;
};

struct FlatRange {
  std::int64_t begin = 0, end = 0;
  bool operator==(const FlatRange&) const = default;
};

struct ShardSpec {
  Shape local;                     // shape in memory, padding included
  std::vector<ShardPiece> pieces;  // in order of memory_row
  std::optional<FlatRange> flat;   // the held elements of the local tensor, if ZeRO shards it

  // One whole canonical tensor, not split and not padded.
  static ShardSpec whole(std::string name, Shape shape);
  // Elements of canonical tensors that this shard holds (padding not counted).
  std::int64_t canonical_elements() const;
};

}  // namespace stoa
