// Element types. Storage and compute types are chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "base/fp8.h"
#include "base/half.h"

namespace stoa {

enum class DType : std::uint8_t { kF64, kF32, kBF16, kF16, kI64, kI32, kU8, kE4M3, kE5M2 };

constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kU8:
    case DType::kE4M3:
    case DType::kE5M2:
      return 1;
  }
  return 0;
}

std::string_view name_of(
    DType type);  // "fp64", "fp32", "bf16", "fp16", "int64", "int32", "uint8", "e4m3", "e5m2"
DType dtype_from_name(
    std::string_view name);  // also float32, bfloat16, F32, BF16 …; ConfigError lists the names

// Whether layers compute with the type; 8-bit floats only store operands of GEMMs (ops/fp8.h).
constexpr bool is_float(DType type) { return type <= DType::kF16; }
constexpr bool is_fp8(DType type) { return type == DType::kE4M3 || type == DType::kE5M2; }

// The type for sums over elements of `type`: fp64 for fp64, else fp32.
constexpr DType accumulation_type(DType type) { return type == DType::kF64 ? DType::kF64 : DType::kF32; }

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, double>)
    return DType::kF64;
  else if constexpr (std::is_same_v<T, float>)
    return DType::kF32;
  else if constexpr (std::is_same_v<T, bf16>)
    return DType::kBF16;
  else if constexpr (std::is_same_v<T, f16>)
    return DType::kF16;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return DType::kI64;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return DType::kI32;
  else if constexpr (std::is_same_v<T, std::uint8_t>)
    return DType::kU8;
  else if constexpr (std::is_same_v<T, e4m3>)
    return DType::kE4M3;
  else if constexpr (std::is_same_v<T, e5m2>)
    return DType::kE5M2;
  else
    static_assert(sizeof(T) == 0, "not an element type");
}

// Calls body.template operator()<T>() with the C++ type of a floating-point dtype.
template <class Body>
decltype(auto) dispatch_float(DType type, Body&& body) {
  switch (type) {
    case DType::kF64:
      return body.template operator()<double>();
    case DType::kF32:
      return body.template operator()<float>();
    case DType::kBF16:
      return body.template operator()<bf16>();
    case DType::kF16:
      return body.template operator()<f16>();
    default:
      fail<InternalError>("expected a floating-point type, got {}", name_of(type));
  }
}

// The same for 8-bit floats.
template <class Body>
decltype(auto) dispatch_fp8(DType type, Body&& body) {
  require<InternalError>(is_fp8(type), "expected e4m3 or e5m2, got {}", name_of(type));
  return type == DType::kE4M3 ? body.template operator()<e4m3>() : body.template operator()<e5m2>();
}

}  // namespace stoa
