#include "ckpt/shard_io.h"

#include <algorithm>

#include "base/error.h"
#include "ckpt/convert.h"

namespace stoa::ckpt {
namespace {

std::int64_t columns_of(const Shape& shape) { return shape.rank() >= 2 ? shape.inner() : 1; }
std::int64_t rows_of(const Shape& shape) { return shape.rank() == 0 ? 1 : shape[0]; }

void copy_run(const StoredTensor& tensor, DType type, const ElementRun& run, const TensorView& out) {
  convert_elements(tensor.bytes.data() + static_cast<std::size_t>(run.file) * size_of(type), type,
                   static_cast<std::byte*>(out.byte_offset(run.memory)), out.dtype, run.count);
}

}  // namespace

void for_each_run(const ShardPiece& piece, const Shape& local, std::int64_t stride0,
                  const std::optional<FlatRange>& flat, const std::function<void(const ElementRun&)>& body) {
  const std::int64_t file_columns = columns_of(piece.global), local_columns = columns_of(local);
  const std::int64_t width = piece.column_count > 0 ? piece.column_count : file_columns - piece.column_begin;
  require<ShapeError>(
      piece.begin >= 0 && piece.count >= 0 && piece.begin + piece.count <= rows_of(piece.global) &&
          piece.column_begin >= 0 && piece.column_begin + width <= file_columns,
      "rows [{}, {}) and columns [{}, {}) are not within '{}' {}", piece.begin, piece.begin + piece.count,
      piece.column_begin, piece.column_begin + width, piece.name, piece.global.text());
  require<ShapeError>(
      piece.memory_row >= 0 && piece.memory_row + piece.count <= rows_of(local) && width <= local_columns,
      "{} rows of {} columns of '{}' at row {} do not fit a tensor {}", piece.count, width, piece.name,
      piece.memory_row, local.text());

  const std::int64_t stride = flat ? local_columns : stride0;
  const bool merge = width == file_columns && stride == width;  // all rows are one run on both sides
  const std::int64_t steps = merge ? std::min<std::int64_t>(piece.count, 1) : piece.count;
  for (std::int64_t i = 0; i < steps; ++i) {
    ElementRun run{(piece.begin + i) * file_columns + piece.column_begin, (piece.memory_row + i) * stride,
                   merge ? piece.count * width : width};
    if (flat) {
      const std::int64_t skip = std::max<std::int64_t>(0, flat->begin - run.memory);
      const std::int64_t end = std::min(run.memory + run.count, flat->end);
      run.file += skip;
      run.memory += skip - flat->begin;
      run.count = end - flat->begin - run.memory;
    }
    if (run.count > 0) body(run);
  }
}

void read(const StoredTensor& tensor, const TensorView& out) {
  require<ShapeError>(tensor.shape() == out.shape, "tensor '{}' is {} in its file, {} was expected",
                      tensor.entry.name, tensor.entry.shape_text(), out.shape.text());
  read_piece(tensor, ShardSpec::whole(tensor.entry.name, out.shape).pieces.front(), out);
}

void read_piece(const StoredTensor& tensor, const ShardPiece& piece, const TensorView& out,
                const std::optional<FlatRange>& flat) {
  require<ShapeError>(tensor.shape() == piece.global, "tensor '{}' is {} in its file, {} was expected",
                      tensor.entry.name, tensor.entry.shape_text(), piece.global.text());
  const DType type = tensor.dtype();
  require<ShapeError>(type == out.dtype || (is_float(type) && is_float(out.dtype)),
                      "tensor '{}' is {} in its file and cannot become {}", tensor.entry.name, name_of(type),
                      name_of(out.dtype));
  for_each_run(piece, out.shape, out.stride0, flat,
               [&](const ElementRun& run) { copy_run(tensor, type, run, out); });
}

void read_shard(const ShardSpec& shard, const TensorFinder& find, const TensorView& out) {
  if (!shard.flat) {
    require<ShapeError>(out.shape == shard.local, "a shard is {}, memory for it {}", shard.local.text(),
                        out.shape.text());
    for (const auto& piece : shard.pieces) read_piece(find(piece.name), piece, out);
    return;
  }
  require<ShapeError>(out.elements() == shard.flat->end - shard.flat->begin && out.contiguous(),
                      "a shard holds elements [{}, {}), memory for it is {}", shard.flat->begin,
                      shard.flat->end, out.text());
  TensorView local =
      out;  // addressed by flat element; the shape is that of the tensor of which `out` is a part
  local.shape = shard.local;
  local.stride0 = shard.local.inner();
  for (const auto& piece : shard.pieces) read_piece(find(piece.name), piece, local, shard.flat);
}

}  // namespace stoa::ckpt
