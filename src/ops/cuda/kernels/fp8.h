// Kernels for FP8 matrices (ops/fp8.h): largest magnitude, cast with its transposed copy, amax histories.
#pragma once

#include "ops/cuda/kernels/element.h"

namespace stoa::ops::cuda {

enum class Float8 : std::uint8_t { kE4M3, kE5M2 };

struct AbsoluteMaxArgs {
  Rows x;
  std::int64_t rows = 0;
  float* partial = nullptr;  // [absolute_max_blocks(rows)]
  float* amax = nullptr;
  bool wide = false;
};
std::int64_t absolute_max_blocks(std::int64_t rows);
void launch_absolute_max(const AbsoluteMaxArgs& args, void* stream);

struct QuantizeArgs {
  Rows x;
  std::int64_t rows = 0;
  Float8 type = Float8::kE4M3;
  const float* amax = nullptr;
  float largest = 0, factor = 1;       // of fp8_scale()
  std::uint8_t* y = nullptr;           // [rows, columns], or null
  std::uint8_t* transposed = nullptr;  // [columns, pitch], zeros from `rows` on, or null
  std::int64_t pitch = 0;              // a multiple of 16
  float* inverse_scale = nullptr;
  float* seen = nullptr;  // raised to the largest magnitude of x, or null
  bool wide = false;      // x, y and transposed are aligned to 16 bytes, columns and stride multiples of 8
};
void launch_quantize(const QuantizeArgs& args, void* stream);

// Groups of contiguous rows: either only their largest magnitudes, or also the cast with each group's scale.
struct GroupedQuantizeArgs {
  Rows x;
  std::int64_t rows = 0, groups = 0;
  const std::int32_t* ids = nullptr;  // [rows]; null: groups are equally large
  float* largest = nullptr;           // of group g at g * largest_stride: raised; or null
  std::int64_t largest_stride = 1;
  bool wide = false;  // as in QuantizeArgs
  // For the cast.
  Float8 type = Float8::kE4M3;
  const float* amax = nullptr;
  std::int64_t amax_stride = 1;
  float most = 0, factor = 1;  // of fp8_scale()
  std::uint8_t* y = nullptr;   // [rows, columns]; null: no cast
  float* inverse_scale = nullptr;
};
void launch_grouped_quantize(const GroupedQuantizeArgs& args, void* stream);

struct AmaxHistoryArgs {
  float* seen = nullptr;          // [count]
  float* history = nullptr;       // [count, length]
  float* amax = nullptr;          // [count]
  const double* state = nullptr;  // step scalars
  std::int64_t count = 0, length = 0;
  bool most_recent = false;
};
void launch_amax_history(const AmaxHistoryArgs& args, void* stream);

}  // namespace stoa::ops::cuda
