#include "ckpt/storage_type.h"

#include <array>

namespace stoa::ckpt {
namespace {

struct Row {
  StorageType type;
  std::string_view name;
  std::size_t bytes;
  std::optional<DType> memory;
};

constexpr std::array<Row, 16> kRows{{
    {StorageType::kBool, "BOOL", 1, DType::kU8},
    {StorageType::kU8, "U8", 1, DType::kU8},
    {StorageType::kI8, "I8", 1, DType::kU8},
    {StorageType::kF8E5M2, "F8_E5M2", 1, DType::kU8},
    {StorageType::kF8E4M3, "F8_E4M3", 1, DType::kU8},
    {StorageType::kF8E8M0, "F8_E8M0", 1, DType::kU8},
    {StorageType::kI16, "I16", 2, std::nullopt},
    {StorageType::kU16, "U16", 2, std::nullopt},
    {StorageType::kF16, "F16", 2, DType::kF16},
    {StorageType::kBF16, "BF16", 2, DType::kBF16},
    {StorageType::kI32, "I32", 4, DType::kI32},
    {StorageType::kU32, "U32", 4, std::nullopt},
    {StorageType::kF32, "F32", 4, DType::kF32},
    {StorageType::kF64, "F64", 8, DType::kF64},
    {StorageType::kI64, "I64", 8, DType::kI64},
    {StorageType::kU64, "U64", 8, std::nullopt},
}};

const Row& row(StorageType type) { return kRows[static_cast<std::size_t>(type)]; }

}  // namespace

std::size_t size_of(StorageType type) { return row(type).bytes; }
std::string_view name_of(StorageType type) { return row(type).name; }
std::optional<DType> memory_type(StorageType type) { return row(type).memory; }

std::optional<StorageType> storage_type_from_name(std::string_view name) {
  for (const Row& r : kRows)
    if (r.name == name) return r.type;
  return std::nullopt;
}

StorageType storage_type(DType type) {
  switch (type) {
    case DType::kF64:
      return StorageType::kF64;
    case DType::kF32:
      return StorageType::kF32;
    case DType::kBF16:
      return StorageType::kBF16;
    case DType::kF16:
      return StorageType::kF16;
    case DType::kI64:
      return StorageType::kI64;
    case DType::kI32:
      return StorageType::kI32;
    case DType::kU8:
      return StorageType::kU8;
    case DType::kE4M3:
      return StorageType::kF8E4M3;
    case DType::kE5M2:
      return StorageType::kF8E5M2;
  }
  fail<InternalError>("no storage type for {}", stoa::name_of(type));
}

}  // namespace stoa::ckpt
