// Copies between the canonical tensors of files and the pieces that a rank holds: any layout can read what
// any other layout wrote.
#pragma once

#include <cstdint>
#include <functional>

#include "ckpt/safetensors.h"
#include "tensor/shard_spec.h"

namespace stoa::ckpt {

// `count` consecutive elements: `file` is an offset in the canonical tensor, `memory` one from the view's
// first element.
struct ElementRun {
  std::int64_t file = 0, memory = 0, count = 0;
};

// The runs of elements that are consecutive both in `piece` of a local tensor and in the canonical one, as
// long as possible, in file order. `local` and `stride0` describe memory; with `flat` it has only that range
// of a dense local tensor. ShapeError: the piece does not fit either side.
void for_each_run(const ShardPiece& piece, const Shape& local, std::int64_t stride0,
                  const std::optional<FlatRange>& flat, const std::function<void(const ElementRun&)>& body);

// Reads a whole tensor into `out` (same shape, any floating-point type). ShapeError names the tensor.
void read(const StoredTensor& tensor, const TensorView& out);
// Reads one piece of it into the local tensor `out`; elements outside the piece are not changed.
void read_piece(const StoredTensor& tensor, const ShardPiece& piece, const TensorView& out,
                const std::optional<FlatRange>& flat = std::nullopt);

using TensorFinder = std::function<const StoredTensor&(const std::string& canonical_name)>;
// Reads all pieces of a shard. `out` has the shape shard.local, or [end - begin] if shard.flat is set.
void read_shard(const ShardSpec& shard, const TensorFinder& find, const TensorView& out);

}  // namespace stoa::ckpt
