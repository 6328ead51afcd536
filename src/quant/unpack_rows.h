// Unpacks packed matrices with the kernels of a processor.
#pragma once

#include <type_traits>

#include "quant/packed_matrix.h"
#include "quant/packed_rows.h"

namespace stoa::quant {

template <class T>
constexpr RowType kRowTypeOf = std::is_same_v<T, bf16>  ? RowType::kBF16
                               : std::is_same_v<T, f16> ? RowType::kF16
                                                        : RowType::kF32;

// Those without vectors, which quant::unpack() takes.
const RowKernels& plain_row_kernels();

// As unpack(), to `out` of the type.
void unpack_rows(const PackedShape& shape, const std::byte* memory, const PackedRange& range,
                 const RowKernels& kernels, RowType type, void* out, std::int64_t stride);

}  // namespace stoa::quant
