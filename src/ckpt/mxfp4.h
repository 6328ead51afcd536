// MXFP4 as gpt-oss' files hold it (OCP Microscaling Formats 1.0, section 5.2): values of E2M1, two per byte,
// the low half first, in blocks of 32 that share a scale of E8M0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace stoa::ckpt {

inline constexpr std::int64_t kMxfp4Block = 32;               // values of a scale
inline constexpr std::int64_t kMxfp4Bytes = kMxfp4Block / 2;  // of a block

// Matrices [count, rows, columns] from blocks [count, rows, columns / 32, 16] and scales [count, rows,
// columns / 32] to their transposes [count, columns, rows] of `type`, which is how the same tensors are held
// as floating point. Exact in fp32 and bf16; not a number where a scale is (255).
void decode_mxfp4_transposed(std::span<const std::byte> blocks, std::span<const std::byte> scales,
                             std::int64_t count, std::int64_t rows, std::int64_t columns, DType type,
                             std::byte* out);

}  // namespace stoa::ckpt
