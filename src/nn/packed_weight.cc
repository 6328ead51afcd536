#include "nn/packed_weight.h"

#include <cstring>

#include "base/error.h"

namespace stoa::nn {
namespace {

// Where the groups of a piece begin: after those of the pieces before it.
std::int64_t groups_of(const ParamSpec& spec, std::size_t pieces) {
  const quant::PackedFormat& format = quant::packed_format(spec.packed);
  std::int64_t out = 0;
  for (std::size_t p = 0; p < pieces; ++p) {
    const ShardPiece& piece = spec.shard.pieces[p];
    out += format.groups(piece.global[0], piece.global[1]);
  }
  return out;
}

}  // namespace

quant::PackedShape packed_shape(const ParamSpec& spec) {
  const quant::PackedFormat& format = quant::packed_format(spec.packed);
  for (const ShardPiece& piece : spec.shard.pieces)
    require<ConfigError>(
        piece.global[1] % format.block == 0 && piece.column_begin % format.block == 0 &&
            piece.column_count % format.block == 0,
        "{}: '{}' has {} inputs, {} of them on a rank: expected multiples of {}; take another format, "
        "or fewer tensor-parallel ranks",
        format.name, piece.name, piece.global[1], piece.column_count, format.block);
  return {spec.packed, spec.shard.local[0], spec.shard.local[1], groups_of(spec, spec.shard.pieces.size())};
}

std::int64_t memory_elements(const ParamSpec& spec) {
  if (spec.is_packed()) return static_cast<std::int64_t>(packed_shape(spec).bytes());
  return spec.is_stored() ? spec.stored_bytes() : spec.shard.local.elements();
}

void pack_weight(const ParamSpec& spec, const std::function<std::vector<float>(std::size_t piece)>& numbers,
                 std::byte* memory) {
  const quant::PackedShape shape = packed_shape(spec);
  std::memset(memory, 0, shape.bytes());
  for (std::size_t p = 0; p < spec.shard.pieces.size(); ++p) {
    const ShardPiece& piece = spec.shard.pieces[p];
    const auto matrix = quant::packed_format(spec.packed).pack(numbers(p), piece.global[1]);
    matrix->copy({.row = piece.begin,
                  .rows = piece.count,
                  .column = piece.column_begin,
                  .columns = piece.column_count,
                  .memory_row = piece.memory_row,
                  .memory_group = groups_of(spec, p)},
                 shape, memory);
  }
}

std::vector<float> unpack_weight(const ParamSpec& spec, const std::byte* memory) {
  const quant::PackedShape shape = packed_shape(spec);
  std::vector<float> out(static_cast<std::size_t>(shape.rows * shape.columns));
  quant::unpack(shape, memory, {.rows = shape.rows, .columns = shape.columns}, out.data(), shape.columns);
  return out;
}

}  // namespace stoa::nn
