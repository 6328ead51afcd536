// From tensors to what kernels take.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "base/error.h"
#include "ops/cuda/kernels/element.h"
#include "ops/norm.h"
#include "ops/step_state.h"
#include "tensor/tensor_view.h"

namespace stoa::ops::cuda {

inline Element element_of(DType type) {
  switch (type) {
    case DType::kF64:
      return Element::kF64;
    case DType::kF32:
      return Element::kF32;
    case DType::kBF16:
      return Element::kBF16;
    case DType::kF16:
      return Element::kF16;
    default:
      fail<InternalError>("{} is no floating-point type", name_of(type));
  }
}

// Kernels compute in fp32.
inline Element fast_element_of(const char* op, const TensorView& tensor) {
  require<ConfigError>(tensor.dtype != DType::kF64,
                       "{}: {} on a GPU: expected fp32, bf16 or fp16 (fp64 is for --backend reference)", op,
                       tensor.text());
  return element_of(tensor.dtype);
}

// The innermost dimension is a row; dimension 0 may be strided.
inline Rows rows_of(const TensorView& tensor) {
  if (!tensor) return {};
  Rows out;
  out.data = tensor.data;
  out.type = element_of(tensor.dtype);
  out.stride = tensor.stride0;
  out.columns = tensor.shape.back();
  out.inner = out.columns == 0 ? 1 : tensor.shape.inner() / out.columns;
  return out;
}
inline std::int64_t row_count(const TensorView& tensor) {
  return tensor.shape.back() == 0 ? 0 : tensor.elements() / tensor.shape.back();
}

inline DropoutArgs dropout_of(const Dropout& dropout, std::int64_t columns) {
  DropoutArgs out;
  if (dropout.p <= 0) return out;
  out.p = dropout.p;
  out.scale = static_cast<float>(1 / (1 - static_cast<double>(dropout.p)));
  out.key_lo = dropout.key.lo;
  out.key_hi = dropout.key.hi;
  out.first = dropout.first_token * columns;
  return out;
}

inline bool is_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }
inline bool all_aligned(std::initializer_list<const void*> addresses) {
  for (const void* address : addresses)
    if (!is_aligned(address)) return false;
  return true;
}
// Whether every row begins at a multiple of 16 bytes and has a multiple of 8 elements. Absent rows do not
// object.
inline bool is_wide(const Rows& rows) {
  return !rows.data || (is_aligned(rows.data) && rows.columns % 8 == 0 && rows.stride % 8 == 0);
}
inline bool is_wide(const DropoutArgs& dropout) { return dropout.p == 0 || dropout.first % 8 == 0; }

inline double* slot(const TensorView& state, StepSlot which) {
  return state.as<double>() + static_cast<int>(which);
}

// Bytes of the pieces in which rows can be copied: 16 where addresses, widths and strides (in elements) allow
// it, otherwise one element.
inline std::int64_t copy_unit_of(DType type, std::initializer_list<const void*> addresses,
                                 std::initializer_list<std::int64_t> lengths) {
  const auto size = static_cast<std::int64_t>(size_of(type));
  for (const std::int64_t length : lengths)
    if (length * size % 16 != 0) return size;
  return all_aligned(addresses) ? 16 : size;
}

}  // namespace stoa::ops::cuda
