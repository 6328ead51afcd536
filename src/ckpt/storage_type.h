// Element types as safetensors files name them. Some have no counterpart in memory: they are carried as
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/dtype.h"

namespace stoa::ckpt {

enum class StorageType : std::uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kF64,
  kI64,
  kU64
};

std::size_t size_of(StorageType type);
std::string_view name_of(StorageType type);  // "BF16", as in the file
std::optional<StorageType> storage_type_from_name(std::string_view name);

StorageType storage_type(DType type);
// The type that holds the same bits in memory: BOOL, I8 and F8 are seen as uint8; I16, U16, U32 and U64 as
// none.
std::optional<DType> memory_type(StorageType type);

}  // namespace stoa::ckpt
