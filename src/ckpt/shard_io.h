// Between the canonical tensors of files and the pieces that a rank holds: any layout reads what any layout
// wrote.
#pragma once

#include <cstdint>
#include <functional>

#include "ckpt/safetensors.h"
#include "tensor/shard_spec.h"

namespace stoa::ckpt {

// `count` consecutive elements: `file` counts in the canonical tensor, `memory` from the view's first
// element.
struct ElementRun {
  std::int64_t file = 0, memory = 0, count = 0;
};

// The runs in which `piece` of a local tensor lies in the canonical one, longest possible, in file order.
// `local` and `stride0` describe memory; with `flat` the memory holds but that range of a dense local tensor.
// ShapeError when the piece does not fit either side.
void for_each_run(const ShardPiece& piece, const Shape& local, std::int64_t stride0,
                  const std::optional<FlatRange>& flat, const std::function<void(const ElementRun&)>& body);

// Whole tensor into `out` (same shape, any floating-point type). ShapeError names the tensor.
void read(const StoredTensor& tensor, const TensorView& out);
// One piece of it into the local tensor `out`; elements outside the piece are left as they are.
void read_piece(const StoredTensor& tensor, const ShardPiece& piece, const TensorView& out,
                const std::optional<FlatRange>& flat = std::nullopt);

using TensorFinder = std::function<const StoredTensor&(const std::string& canonical_name)>;
// All pieces of a shard. `out` has the shape shard.local, or [end - begin] when shard.flat is set.
void read_shard(const ShardSpec& shard, const TensorFinder& find, const TensorView& out);

}  // namespace stoa::ckpt
