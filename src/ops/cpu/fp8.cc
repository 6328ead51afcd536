#include "ops/fp8.h"

#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/eight_bit_gemm.h"
#include "ops/cpu/operands.h"
#include "ops/fp8_scale.h"

namespace stoa::ops::cpu {
namespace {

// Bits of the largest magnitude: those of binary formats are ordered as integers, NaN above all.
template <class Bits>
Bits largest_magnitude(const Bits* x, std::int64_t n, Bits largest) {
  constexpr auto kMask = static_cast<Bits>(static_cast<Bits>(~Bits{0}) >> 1);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto magnitude = static_cast<Bits>(x[i] & kMask);
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>;

template <class T>
float largest_of_rows(const TensorView& x, std::int64_t begin, std::int64_t end) {
  BitsOf<T> largest = 0;
  for (std::int64_t r = begin; r < end; ++r)
    largest =
        largest_magnitude(static_cast<const BitsOf<T>*>(x.byte_offset(r * x.stride0)), x.shape[1], largest);
  return static_cast<float>(std::bit_cast<T>(largest));
}

constexpr std::int64_t kTile = 64;  // rows and columns that are quantized, and transposed, at once

// A number of another thread's may come between; no order shows.
void raise(float& largest, float to) {
  const std::atomic_ref<float> place(largest);
  float known = place.load(std::memory_order_relaxed);
  while (!(to <= known) && !std::isnan(known) &&
         !place.compare_exchange_weak(known, to, std::memory_order_relaxed)) {
  }
}

template <class X, class Y>
void quantize_tile(const Quantize& op, float scale, std::int64_t row, std::int64_t column) {
  const std::int64_t rows = std::min(kTile, op.x.shape[0] - row),
                     columns = std::min(kTile, op.x.shape[1] - column);
  if (op.seen)
    raise(*op.seen.as<float>(), largest_of_rows<X>(op.x.slice(row, rows).columns(column, columns), 0, rows));
  Y tile[kTile][kTile];
  for (std::int64_t r = 0; r < rows; ++r) {
    const X* x = op.x.row<X>(row + r) + column;
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto wide = static_cast<float>(x[c]);
      tile[r][c] = Y(std::isinf(wide) ? std::numeric_limits<float>::quiet_NaN() : wide * scale);
    }
    if (op.y) std::copy_n(tile[r], columns, op.y.row<Y>(row + r) + column);
  }
  if (!op.transposed) return;
  const std::int64_t padded = std::min(kTile, op.transposed.shape[1] - row);
  for (std::int64_t c = 0; c < columns; ++c) {
    Y* out = op.transposed.row<Y>(column + c) + row;
    for (std::int64_t r = 0; r < rows; ++r) out[r] = tile[r][c];
    std::fill(out + rows, out + padded, Y());
  }
}

Gemm product_of(const ScaledProduct& op) {
  return {
      .a = {op.a, false}, .b = {op.b, false}, .bias = op.bias, .out = op.out, .accumulate = op.accumulate};
}

}  // namespace

std::size_t CpuBackend::workspace_bytes(const AbsoluteMax& op) const {
  const std::int64_t step = rows_per_task(op.x.shape[1]);
  return static_cast<std::size_t>((op.x.shape[0] + step - 1) / step) * sizeof(float);
}

void CpuBackend::execute(const AbsoluteMax& op, Resources resources) {
  if (needs_reference(op)) return ReferenceBackend::execute(op, resources);
  auto* largest = static_cast<float*>(resources.workspace);  // of every piece
  const std::int64_t step = rows_per_task(op.x.shape[1]), rows = op.x.shape[0];
  with_float(op.x.dtype, [&]<class T>() {
    run_pieces(pool_, rows, step, [&](std::int64_t begin, std::int64_t end) {
      largest[begin / step] = largest_of_rows<T>(op.x, begin, end);
    });
  });
  const auto pieces = (rows + step - 1) / step;
  *op.amax.as<float>() = std::bit_cast<float>(
      largest_magnitude(reinterpret_cast<const std::uint32_t*>(largest), pieces, std::uint32_t{0}));
}

void CpuBackend::execute(const Quantize& op, Resources resources) {
  if (needs_reference(op)) return ReferenceBackend::execute(op, resources);
  const DType type = op.y ? op.y.dtype : op.transposed ? op.transposed.dtype : DType::kE4M3;
  dispatch_fp8(type, [&]<class Y>() {
    const float scale =
        fp8_scale(*op.amax.as<float>(), Y::kLargest, static_cast<float>(std::exp2(-op.margin)));
    *op.inverse_scale.as<float>() = 1 / scale;
    const std::int64_t across = (op.x.shape[1] + kTile - 1) / kTile,
                       down = (op.x.shape[0] + kTile - 1) / kTile;
    with_float(op.x.dtype, [&]<class X>() {
      run_pieces(pool_, across * down, 1, [&](std::int64_t tile, std::int64_t) {
        quantize_tile<X, Y>(op, scale, tile / across * kTile, tile % across * kTile);
      });
    });
  });
}

std::size_t CpuBackend::workspace_bytes(const GroupedAbsoluteMax& op) const {
  return workspace_bytes(AbsoluteMax{op.x, op.amax});  // of one group at most
}

std::size_t CpuBackend::workspace_bytes(const ScaledProduct& op) const {
  if (needs_reference(op)) return 0;
  return workspace_bytes_of_eight_bits_any_rows(product_of(op), products_, pool_.size());
}

void CpuBackend::execute(const ScaledProduct& op, Resources resources) {
  if (needs_reference(op)) return ReferenceBackend::execute(op, resources);
  run_eight_bits(product_of(op), *op.inverse_a.as<float>() * *op.inverse_b.as<float>(), products_, pool_,
                 resources.workspace);
}

void CpuBackend::execute(const BiasBackward& op, Resources resources) {
  if (needs_reference(op)) return ReferenceBackend::execute(op, resources);
  column_sums(op.dy, op.dbias, op.accumulate, isa_, pool_);
}

}  // namespace stoa::ops::cpu
