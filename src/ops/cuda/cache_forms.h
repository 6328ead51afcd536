#pragma once

#include "base/error.h"
#include "ops/cuda/kernels/cache_rows.h"
#include "tensor/dtype.h"

namespace stoa::ops::cuda {

inline CacheForm cache_form_of(DType type) {
  switch (type) {
    case DType::kF32:
      return CacheForm::kF32;
    case DType::kBF16:
      return CacheForm::kBF16;
    case DType::kF16:
      return CacheForm::kF16;
    case DType::kU8:
      return CacheForm::kCodes;
    default:
      fail<InternalError>("a cache of {} on a GPU", name_of(type));
  }
}

}  // namespace stoa::ops::cuda
