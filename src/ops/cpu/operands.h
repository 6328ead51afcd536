// From tensors to kernel arguments, and the cutting of work.
#pragma once

#include <algorithm>

#include "base/worker_pool.h"
#include "ops/cpu/cache_form.h"
#include "ops/cpu/matrix_args.h"
#include "ops/norm.h"

namespace stoa::ops::cpu {

// True when the fp64 reference has to serve: some tensor of `op` that is a float has none of the kernels'
// types.
template <class Op>
bool needs_reference(const Op& op, bool has_state = false) {
  bool wide = false;
  Op::visit(op, [&](const char*, const TensorView& tensor, Access) {
    if (!has_state && tensor && tensor.dtype == DType::kF64) wide = true;
  });
  return wide;
}

inline Element element_of(DType type) {
  switch (type) {
    case DType::kF32:
      return Element::kF32;
    case DType::kBF16:
      return Element::kBF16;
    case DType::kF16:
      return Element::kF16;
    default:
      fail<InternalError>("the CPU kernels take fp32, bf16 and fp16, got {}", name_of(type));
  }
}

inline CacheForm cache_form_of(DType type) {
  if (type == DType::kU8) return CacheForm::kCodes;
  switch (element_of(type)) {
    case Element::kF32:
      return CacheForm::kF32;
    case Element::kBF16:
      return CacheForm::kBF16;
    case Element::kF16:
      return CacheForm::kF16;
  }
  fail<InternalError>("no form of a cache for {}", name_of(type));
}

inline Rows rows_of(const TensorView& tensor) {
  if (!tensor) return {};
  Rows rows{tensor.data, element_of(tensor.dtype), tensor.stride0, 1, tensor.shape.back()};
  if (tensor.shape.rank() == 3) rows.inner = tensor.shape[1];
  if (tensor.shape.rank() == 1) rows.columns = 1;
  return rows;
}

inline std::int64_t row_count(const TensorView& tensor) {
  return tensor.shape.back() == 0 ? 0 : tensor.elements() / tensor.shape.back();
}

// Single elements of a row of fp32, bf16 or fp16.
inline float row_element(const TensorView& row, std::int64_t i) {
  return dispatch_float(row.dtype, [&]<class T>() { return static_cast<float>(row.as<T>()[i]); });
}

inline void set_row_element(const TensorView& row, std::int64_t i, float value) {
  dispatch_float(row.dtype, [&]<class T>() { row.as<T>()[i] = static_cast<T>(value); });
}

inline DropoutArgs dropout_of(const Dropout& dropout, std::int64_t columns) {
  if (dropout.p == 0) return {};
  return {dropout.p, 1.0f / (1.0f - dropout.p), dropout.key.lo, dropout.key.hi,
          dropout.first_token * columns};
}

// Pieces of about 64 KiB: enough to share between workers, few enough that the pool costs nothing.
inline std::int64_t rows_per_task(std::int64_t columns) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, columns));
}

// Body of an operation on fp32, bf16 or fp16.
template <class Body>
void with_float(DType type, Body&& body) {
  dispatch_float(type, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) body.template operator()<T>();
  });
}

// body(begin, end) over [0, n) in pieces of `step`.
template <class Body>
void run_pieces(WorkerPool& pool, std::int64_t n, std::int64_t step, const Body& body) {
  if (n <= 0) return;
  pool.run((n + step - 1) / step,
           [&](std::int64_t task, int) { body(task * step, std::min(n, (task + 1) * step)); });
}

}  // namespace stoa::ops::cpu
