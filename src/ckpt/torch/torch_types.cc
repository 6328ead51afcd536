#include "ckpt/torch/torch_types.h"

namespace stoa::ckpt::torch {
namespace {

constexpr ElementType kTypes[] = {
    {"float32", "FloatStorage", 4, StorageType::kF32},
    {"bfloat16", "BFloat16Storage", 2, StorageType::kBF16},
    {"float16", "HalfStorage", 2, StorageType::kF16},
    {"float64", "DoubleStorage", 8, StorageType::kF64},
    {"uint8", "ByteStorage", 1, StorageType::kU8},
    {"int8", "CharStorage", 1, StorageType::kI8},
    {"int16", "ShortStorage", 2, StorageType::kI16},
    {"int32", "IntStorage", 4, StorageType::kI32},
    {"int64", "LongStorage", 8, StorageType::kI64},
    {"bool", "BoolStorage", 1, StorageType::kBool},
    {"uint16", "", 2, StorageType::kU16},
    {"uint32", "", 4, StorageType::kU32},
    {"uint64", "", 8, StorageType::kU64},
    {"float8_e4m3fn", "", 1, StorageType::kF8E4M3},
    {"float8_e5m2", "", 1, StorageType::kF8E5M2},
    {"float8_e8m0fnu", "", 1, StorageType::kF8E8M0},
    {"float8_e4m3fnuz", "", 1, std::nullopt},
    {"float8_e5m2fnuz", "", 1, std::nullopt},
    {"complex32", "", 4, std::nullopt},
    {"complex64", "ComplexFloatStorage", 8, std::nullopt},
    {"complex128", "ComplexDoubleStorage", 16, std::nullopt},
    {"qint8", "QInt8Storage", 1, std::nullopt},
    {"quint8", "QUInt8Storage", 1, std::nullopt},
    {"qint32", "QInt32Storage", 4, std::nullopt},
};

}  // namespace

const ElementType* element_type(std::string_view dtype) {
  for (const ElementType& type : kTypes)
    if (type.name == dtype) return &type;
  return nullptr;
}

const ElementType* type_of_storage(std::string_view class_name) {
  if (class_name == "UntypedStorage") return element_type("uint8");
  for (const ElementType& type : kTypes)
    if (!type.storage_class.empty() && type.storage_class == class_name) return &type;
  return nullptr;
}

}  // namespace stoa::ckpt::torch
