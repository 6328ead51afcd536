#include "tensor/dtype.h"

#include <algorithm>
#include <array>
#include <utility>

namespace stoa {

std::string_view name_of(DType type) {
  switch (type) {
    case DType::kF64:
      return "fp64";
    case DType::kF32:
      return "fp32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "fp16";
    case DType::kI64:
      return "int64";
    case DType::kI32:
      return "int32";
    case DType::kU8:
      return "uint8";
    case DType::kE4M3:
      return "e4m3";
    case DType::kE5M2:
      return "e5m2";
  }
  return "?";
}

DType dtype_from_name(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, DType>, 19> names{{
      {"fp64", DType::kF64},    {"float64", DType::kF64}, {"f64", DType::kF64},   {"fp32", DType::kF32},
      {"float32", DType::kF32}, {"f32", DType::kF32},     {"bf16", DType::kBF16}, {"bfloat16", DType::kBF16},
      {"fp16", DType::kF16},    {"float16", DType::kF16}, {"f16", DType::kF16},   {"int64", DType::kI64},
      {"i64", DType::kI64},     {"int32", DType::kI32},   {"i32", DType::kI32},   {"uint8", DType::kU8},
      {"u8", DType::kU8},       {"double", DType::kF64},  {"half", DType::kF16},
  }};
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  for (const auto& [text, type] : names)
    if (std::ranges::equal(text, name, {}, {}, lower)) return type;
  fail<ConfigError>("unknown type '{}': expected fp64, fp32, bf16, fp16, int64, int32 or uint8", name);
}

}  // namespace stoa
