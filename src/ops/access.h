// How an operation uses each of its tensors. Every argument struct lists its tensors once, in visit(); the
// check, meta and trace tools read that list.
#pragma once

#include "tensor/tensor_view.h"

namespace stoa::ops {

enum class Access : std::uint8_t { kRead, kWrite, kReadWrite };

}  // namespace stoa::ops
