#include "infer/cache_type.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/error.h"

namespace stoa::infer {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, 13> kNames{{
    {"fp32", DType::kF32},
    {"float32", DType::kF32},
    {"float", DType::kF32},
    {"f32", DType::kF32},
    {"bf16", DType::kBF16},
    {"bfloat16", DType::kBF16},
    {"fp16", DType::kF16},
    {"float16", DType::kF16},
    {"half", DType::kF16},
    {"f16", DType::kF16},
    {"int8", DType::kU8},
    {"q8_0", DType::kU8},
    {"q8", DType::kU8},
}};

}  // namespace

std::optional<DType> cache_type_from_name(std::string_view given) {
  std::string name(given);
  std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
  if (name == "auto") return std::nullopt;
  for (const auto& [text, type] : kNames)
    if (text == name) return type;
  // Other programs keep keys and values in 8-bit floats or in 4 and 5 bits.
  const bool narrow = name.starts_with("fp8") || name.starts_with("q") || name.starts_with("iq") ||
                      name.starts_with("int") || name.starts_with("e4m3") || name.starts_with("e5m2") ||
                      name.starts_with("nvfp4") || name.starts_with("turbo");
  fail<ConfigError>("--kv-dtype {}: keys and values are kept in auto, fp32, bf16, fp16 or int8{}", given,
                    narrow ? "; nearest to it is int8" : "");
}

std::string_view cache_type_name(DType type) { return type == DType::kU8 ? "int8" : name_of(type); }

DType cache_type(DType compute, std::optional<DType> asked, bool blocks) {
  if (!asked) return blocks && compute == DType::kF32 ? DType::kF16 : compute;
  if (*asked == compute) return compute;
  require<ConfigError>(compute != DType::kF64 && *asked != DType::kF32,
                       "--kv-dtype {}: the model computes in {}, which {}; give --kv-dtype {}",
                       cache_type_name(*asked), name_of(compute),
                       compute == DType::kF64 ? "goes with no other type" : "a wider type does not improve",
                       compute == DType::kF64 ? "auto" : name_of(compute));
  return *asked;
}

}  // namespace stoa::infer
