#include "nn/stored_weight.h"

#include <algorithm>

#include "base/error.h"

namespace stoa::nn {

void pack_stored(const ParamSpec& spec,
                 const std::function<const std::byte*(std::size_t piece, std::int64_t row)>& row,
                 const std::function<void(std::int64_t, const std::function<void(std::int64_t)>&)>& share_out,
                 std::byte* memory) {
  constexpr std::int64_t kGroups = 8;  // of a task
  const quant::MatrixShape& shape = spec.stored;
  for (std::size_t p = 0; p < spec.shard.pieces.size(); ++p) {
    const quant::MatrixPart& part = shape.parts[p % static_cast<std::size_t>(shape.count)];
    const ShardPiece& piece = spec.shard.pieces[p];
    // Where columns are split among ranks, this rank's begin behind others.
    const std::int64_t before = part.layout().format().row_bytes(piece.column_begin);
    share_out((part.groups() + kGroups - 1) / kGroups, [&](std::int64_t task) {
      try {
        quant::pack_groups(
            part, shape.columns,
            [&](std::int64_t r) { return r < piece.count ? row(p, piece.begin + r) + before : nullptr; },
            task * kGroups, std::min(part.groups(), (task + 1) * kGroups), memory);
      } catch (const DataError& e) {
        fail<DataError>("'{}': {}", piece.name, e.what());
      }
    });
    memory += part.bytes(shape.columns);
  }
}

}  // namespace stoa::nn
