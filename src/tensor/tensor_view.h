// A view of memory: owns nothing, computes nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace stoa {

// Where the bytes are. A meta address is a number that is never dereferenced: it serves to count memory.
enum class DeviceKind : std::uint8_t { kHost, kMeta, kCuda };

// Dense row-major tensor whose dimension 0 alone may be strided (a slice of the columns of a wider matrix).
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  DeviceKind device = DeviceKind::kHost;
  Shape shape;
  std::int64_t stride0 = 0;  // elements between index i and i+1 of dimension 0

  TensorView() = default;
  TensorView(void* memory, DType type, Shape dims, DeviceKind where = DeviceKind::kHost)
      : data(memory), dtype(type), device(where), shape(dims), stride0(dims.inner()) {}

  explicit operator bool() const { return data != nullptr; }
  std::int64_t elements() const { return shape.elements(); }
  std::int64_t rows() const { return shape.rank() == 0 ? 1 : shape[0]; }
  bool contiguous() const { return rows() <= 1 || stride0 == shape.inner(); }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype); }

  // Typed access; InternalError when the type is another.
  template <class T>
  T* as() const {
    require<InternalError>(dtype == dtype_of<T>(), "tensor is {}, not {}", name_of(dtype),
                           name_of(dtype_of<T>()));
    return static_cast<T*>(data);
  }
  template <class T>
  T* row(std::int64_t i) const {
    return as<T>() + i * stride0;
  }
  void* byte_offset(std::int64_t element) const {
    return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(data) +
                                   static_cast<std::uintptr_t>(element) * size_of(dtype));
  }

  // Indices [begin, begin + count) of dimension 0.
  TensorView slice(std::int64_t begin, std::int64_t count) const;
  // Columns [begin, begin + count) of a matrix [rows, columns]: a strided view.
  TensorView columns(std::int64_t begin, std::int64_t count) const;
  // Other dimensions over the same elements. A strided view keeps dimension 0.
  TensorView reshape(Shape dims) const;

  std::string text() const;  // "bf16[4096, 768]"
};

}  // namespace stoa
