// Element types as PyTorch names them: dtypes ("float32") and the classes of older storages ("FloatStorage").
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ckpt/storage_type.h"

namespace stoa::ckpt::torch {

struct ElementType {
  std::string_view name;           // "float32"
  std::string_view storage_class;  // "FloatStorage"; empty: its tensors are in untyped storages
  std::uint32_t bytes = 0;
  std::optional<StorageType> stored;  // none: safetensors have no such type (complex, quantised)
};

// nullptr: no such type.
const ElementType* element_type(std::string_view dtype);          // "float32"
const ElementType* type_of_storage(std::string_view class_name);  // "FloatStorage", "UntypedStorage" (bytes)

}  // namespace stoa::ckpt::torch
