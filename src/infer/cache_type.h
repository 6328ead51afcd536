// The types in which keys and values of texts under way are kept. DType::kU8 stands for 8-bit codes with
// scales (ops/cache_rows.h), which users call int8.
#pragma once

#include <optional>
#include <string_view>

#include "tensor/dtype.h"

namespace stoa::infer {

// In capitals or not. None: "auto". ConfigError: another name, with the types that there are.
std::optional<DType> cache_type_from_name(std::string_view name);
std::string_view cache_type_name(DType type);

// The type for a model that computes in `compute`. `asked`: none chooses it; `blocks`: the model's matrices
// stay in the blocks of a quantised file. ConfigError: `asked` is not possible.
DType cache_type(DType compute, std::optional<DType> asked, bool blocks);

}  // namespace stoa::infer
