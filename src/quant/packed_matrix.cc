#include "quant/packed_matrix.h"

#include <vector>

#include "base/error.h"
#include "quant/packed_formats.h"

namespace stoa::quant {

const PackedFormat& packed_format(PackedKind kind) {
  switch (kind) {
    case PackedKind::kInt8:
      return kPackedInt8;
    case PackedKind::kNf4:
      return kPackedNf4;
    case PackedKind::kNone:
      break;
  }
  fail<InternalError>("no format of packed matrices has the number {}", static_cast<int>(kind));
}

std::size_t PackedShape::bytes() const { return packed_format(kind).bytes(*this); }

PackedShape whole_shape(PackedKind kind, std::int64_t rows, std::int64_t columns) {
  return {kind, rows, columns, packed_format(kind).groups(rows, columns)};
}

template <class T>
void unpack(const PackedShape& shape, const std::byte* memory, const PackedRange& range, T* out,
            std::int64_t stride) {
  unpack_rows(shape, memory, range, plain_row_kernels(), kRowTypeOf<T>, out, stride);
}

template void unpack(const PackedShape&, const std::byte*, const PackedRange&, float*, std::int64_t);
template void unpack(const PackedShape&, const std::byte*, const PackedRange&, bf16*, std::int64_t);
template void unpack(const PackedShape&, const std::byte*, const PackedRange&, f16*, std::int64_t);

void unpack_rows(const PackedShape& shape, const std::byte* memory, const PackedRange& range,
                 const RowKernels& kernels, RowType type, void* out, std::int64_t stride) {
  packed_format(shape.kind).unpack(shape, memory, range, {out, type, stride}, kernels);
}

const RowKernels& plain_row_kernels() {
  static constexpr RowKernels kPlain{
      {plain_int8_row<float>, plain_int8_row<bf16>, plain_int8_row<f16>},
      {plain_nf4_row<float>, plain_nf4_row<bf16>, plain_nf4_row<f16>},
  };
  return kPlain;
}

void pass_through(PackedKind kind, std::span<float> numbers, std::int64_t columns) {
  const auto rows = static_cast<std::int64_t>(numbers.size()) / columns;
  const PackedShape shape = whole_shape(kind, rows, columns);
  std::vector<std::byte> memory(shape.bytes());
  packed_format(kind).pack(numbers, columns)->copy({.rows = rows, .columns = columns}, shape, memory.data());
  unpack(shape, memory.data(), {.rows = rows, .columns = columns}, numbers.data(), columns);
}

}  // namespace stoa::quant
