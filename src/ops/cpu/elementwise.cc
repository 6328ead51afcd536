#include <algorithm>
#include <cstring>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/elementwise_kernels.h"
#include "ops/cpu/operands.h"

namespace stoa::ops::cpu {
namespace {

constexpr std::int64_t kPiece = 32768;  // elements

Rows flat(const TensorView& tensor) {
  return {tensor.data, element_of(tensor.dtype), tensor.elements(), 1, tensor.elements()};
}

}  // namespace

void CpuBackend::execute(const Cast& op, Resources resources) {
  if (needs_reference(op)) return ReferenceBackend::execute(op, resources);
  const ElementwiseKernels& kernels = STOA_KERNELS(isa_, elementwise_kernels);
  const Rows x = flat(op.x), y = flat(op.y);
  run_pieces(pool_, op.x.elements(), kPiece,
             [&](std::int64_t begin, std::int64_t end) { kernels.cast(x, y, begin, end); });
}

void CpuBackend::execute(const AddTo& op, Resources resources) {
  if (needs_reference(op)) return ReferenceBackend::execute(op, resources);
  const ElementwiseKernels& kernels = STOA_KERNELS(isa_, elementwise_kernels);
  const Rows x = flat(op.x), y = flat(op.y);
  run_pieces(pool_, op.x.elements(), kPiece,
             [&](std::int64_t begin, std::int64_t end) { kernels.add_to(x, y, begin, end); });
}

void CpuBackend::execute(const Combine& op, Resources resources) {
  if (needs_reference(op)) return ReferenceBackend::execute(op, resources);
  const ElementwiseKernels& kernels = STOA_KERNELS(isa_, elementwise_kernels);
  const Rows x = flat(op.x), y = flat(op.y);
  const auto a = static_cast<float>(op.a), b = static_cast<float>(op.b);
  run_pieces(pool_, op.x.elements(), kPiece,
             [&](std::int64_t begin, std::int64_t end) { kernels.combine(a, x, b, y, begin, end); });
}

void CpuBackend::execute(const ResidualAdd& op, Resources resources) {
  if (needs_reference(op) || op.x.dtype != op.y.dtype) return ReferenceBackend::execute(op, resources);
  const ElementwiseKernels& kernels = STOA_KERNELS(isa_, elementwise_kernels);
  const Rows x = rows_of(op.x), branch = rows_of(op.branch), y = rows_of(op.y);
  const DropoutArgs dropout = dropout_of(op.dropout, y.columns);
  run_pieces(pool_, row_count(op.y), rows_per_task(y.columns), [&](std::int64_t begin, std::int64_t end) {
    kernels.add_dropped(x, branch, dropout, y, begin, end);
  });
}

void CpuBackend::execute(const DropoutBackward& op, Resources resources) {
  if (needs_reference(op)) return ReferenceBackend::execute(op, resources);
  const ElementwiseKernels& kernels = STOA_KERNELS(isa_, elementwise_kernels);
  const Rows dy = rows_of(op.dy), dbranch = rows_of(op.dbranch);
  const DropoutArgs dropout = dropout_of(op.dropout, dy.columns);
  run_pieces(pool_, row_count(op.dy), rows_per_task(dy.columns), [&](std::int64_t begin, std::int64_t end) {
    kernels.add_dropped(Rows{}, dy, dropout, dbranch, begin, end);
  });
}

void CpuBackend::execute(const CopyRows& op, Resources resources) {
  const std::int64_t columns = std::max<std::int64_t>(1, op.y.shape.inner());
  run_pieces(pool_, op.y.rows(), rows_per_task(columns), [&](std::int64_t begin, std::int64_t end) {
    CopyRows piece = op;
    piece.y = op.y.slice(begin, end - begin);
    if (op.index)
      piece.index = op.index.slice(begin, end - begin);
    else
      piece.x = op.x.slice(begin, end - begin);
    ReferenceBackend::execute(piece, resources);
  });
}

void CpuBackend::execute(const FillZero& op, Resources) {
  const auto bytes = static_cast<std::int64_t>(op.y.bytes());
  auto* data = static_cast<char*>(op.y.data);
  run_pieces(pool_, bytes, std::int64_t{1} << 18, [&](std::int64_t begin, std::int64_t end) {
    std::memset(data + begin, 0, static_cast<std::size_t>(end - begin));
  });
}

}  // namespace stoa::ops::cpu
