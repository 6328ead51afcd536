#include "ops/moe.h"

#include <cstring>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/eight_bit_gemm.h"
#include "ops/cpu/linear.h"
#include "ops/cpu/moe_kernels.h"
#include "ops/cpu/operands.h"
#include "ops/reference/router.h"

namespace stoa::ops::cpu {
namespace {

// Tokens of the router per task.
constexpr std::int64_t kRouterTokens = 64;

LinearForward of_rows(const GroupedLinearForward& op, std::int64_t expert, std::int64_t begin,
                      std::int64_t count) {
  const std::int64_t n = op.y.shape[1];
  return {op.x.slice(begin, count), op.w.slice(expert * n, n), {}, op.y.slice(begin, count)};
}
LinearBackwardInput of_rows(const GroupedLinearBackwardInput& op, std::int64_t expert, std::int64_t begin,
                            std::int64_t count) {
  const std::int64_t n = op.dy.shape[1];
  return {op.dy.slice(begin, count), op.w.slice(expert * n, n), op.dx.slice(begin, count)};
}
LinearBackwardWeight of_rows(const GroupedLinearBackwardWeight& op, std::int64_t expert, std::int64_t begin,
                             std::int64_t count) {
  const std::int64_t n = op.dy.shape[1];
  return {op.x.slice(begin, count), op.dy.slice(begin, count), op.dw.slice(expert * n, n), {}, op.accumulate};
}

TensorView result_of(const GroupedLinearForward& op) { return op.y; }
TensorView result_of(const GroupedLinearBackwardInput& op) { return op.dx; }

// The factor of an expert's FP8 GEMM: the product of its operands' inverse scales.
float scale_of(const TensorView& inverse_a, const TensorView& inverse_b, std::int64_t expert) {
  return inverse_a.as<float>()[expert] * inverse_b.as<float>()[expert];
}
float scale_of(const GroupedLinearForward& op, std::int64_t expert) {
  return scale_of(op.inverse_x, op.inverse_w, expert);
}
float scale_of(const GroupedLinearBackwardInput& op, std::int64_t expert) {
  return scale_of(op.inverse_dy, op.inverse_w, expert);
}
float scale_of(const GroupedLinearBackwardWeight& op, std::int64_t expert) {
  return scale_of(op.inverse_x, op.inverse_dy, expert);
}

template <class Op>
void run_grouped(const Op& op, const MatrixKernels& kernels, WorkerPool& pool, void* workspace) {
  for_each_expert(op.sorted_experts, [&](std::int64_t expert, std::int64_t begin, std::int64_t end) {
    const Gemm gemm = gemm_of(of_rows(op, expert, begin, end - begin));
    if (is_fp8(gemm.a.matrix.dtype))
      run_eight_bits(gemm, scale_of(op, expert), kernels, pool, workspace);
    else
      run(gemm, kernels, pool, workspace);
  });
}

// Workspace bytes that suffice for any expert.
template <class Op>
std::size_t bytes_of_any_rows(const Op& op, std::int64_t rows, const MatrixKernels& kernels, int workers) {
  if (result_of(op).dtype == DType::kF64) return 0;
  const Gemm gemm = gemm_of(of_rows(op, 0, 0, rows));
  return is_fp8(gemm.a.matrix.dtype) ? workspace_bytes_of_eight_bits_any_rows(gemm, kernels, workers)
                                     : workspace_bytes_of_any_rows(gemm, kernels, workers);
}

}  // namespace

// The router does little arithmetic: the reference implementation, parallel over tokens, is fast enough.
void CpuBackend::execute(const RouterForward& op, Resources resources) {
  run_pieces(pool_, op.logits.rows(), kRouterTokens, [&](std::int64_t begin, std::int64_t end) {
    RouterForward piece = op;
    piece.logits = op.logits.slice(begin, end - begin);
    piece.experts = op.experts.slice(begin, end - begin);
    piece.weights = op.weights.slice(begin, end - begin);
    ReferenceBackend::execute(piece, resources);
  });
}

void CpuBackend::execute(const RouterBackward& op, Resources resources) {
  run_pieces(pool_, op.logits.rows(), kRouterTokens, [&](std::int64_t begin, std::int64_t end) {
    RouterBackward piece = op;
    piece.sequences.first += begin;
    piece.logits = op.logits.slice(begin, end - begin);
    piece.experts = op.experts.slice(begin, end - begin);
    piece.dweights = op.dweights.slice(begin, end - begin);
    piece.dlogits = op.dlogits.slice(begin, end - begin);
    ReferenceBackend::execute(piece, resources);
  });
}

void CpuBackend::execute(const GatherRows& op, Resources) {
  const std::int64_t k = op.divisor();
  const auto* order = op.order.as<std::int32_t>();
  const std::size_t bytes = static_cast<std::size_t>(op.x.shape[1]) * size_of(op.x.dtype);
  const auto* x = static_cast<const std::byte*>(op.x.data);
  auto* y = static_cast<std::byte*>(op.y.data);
  run_pieces(pool_, op.y.rows(), rows_per_task(op.x.shape[1]), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      std::memcpy(y + static_cast<std::size_t>(i) * bytes, x + static_cast<std::size_t>(order[i] / k) * bytes,
                  bytes);
  });
}

void CpuBackend::execute(const SumRows& op, Resources resources) {
  if (needs_reference(op)) return ReferenceBackend::execute(op, resources);
  MoeArgs args{.x = rows_of(op.x),
               .y = rows_of(op.y),
               .dy = {},
               .index = op.place.as<std::int32_t>(),
               .k = op.place.shape[1]};
  const MoeKernels& kernels = STOA_KERNELS(isa_, moe_kernels);
  run_pieces(pool_, op.y.rows(), rows_per_task(op.y.shape[1] * args.k),
             [&](std::int64_t begin, std::int64_t end) { kernels.sum(args, begin, end); });
}

void CpuBackend::execute(const ScaleRows& op, Resources resources) {
  if (needs_reference(op)) return ReferenceBackend::execute(op, resources);
  MoeArgs args{.x = rows_of(op.x), .y = rows_of(op.y), .dy = {}, .index = op.order.as<std::int32_t>()};
  args.weights = op.weights.as<float>();
  const MoeKernels& kernels = STOA_KERNELS(isa_, moe_kernels);
  run_pieces(pool_, op.x.rows(), rows_per_task(op.x.shape[1]),
             [&](std::int64_t begin, std::int64_t end) { kernels.scale(args, begin, end); });
}

void CpuBackend::execute(const ScaleRowsBackward& op, Resources resources) {
  if (needs_reference(op)) return ReferenceBackend::execute(op, resources);
  MoeArgs args{
      .x = rows_of(op.x), .y = rows_of(op.dx), .dy = rows_of(op.dy), .index = op.order.as<std::int32_t>()};
  args.weights = op.weights.as<float>();
  args.dweights = op.dweights.as<float>();
  const MoeKernels& kernels = STOA_KERNELS(isa_, moe_kernels);
  run_pieces(pool_, op.x.rows(), rows_per_task(op.x.shape[1]),
             [&](std::int64_t begin, std::int64_t end) { kernels.scale_backward(args, begin, end); });
}

void CpuBackend::execute(const GroupedLinearForward& op, Resources resources) {
  if (op.y.dtype == DType::kF64) return ReferenceBackend::execute(op, resources);
  run_grouped(op, products_, pool_, resources.workspace);
}

void CpuBackend::execute(const GroupedLinearBackwardInput& op, Resources resources) {
  if (op.dx.dtype == DType::kF64) return ReferenceBackend::execute(op, resources);
  run_grouped(op, products_, pool_, resources.workspace);
}

void CpuBackend::execute(const GroupedLinearBackwardWeight& op, Resources resources) {
  if (op.dw.dtype == DType::kF64) return ReferenceBackend::execute(op, resources);
  if (op.part_of >= 0) {
    Gemm gemm = gemm_of(LinearBackwardWeight{op.x, op.dy, op.dw, {}, false});
    gemm.continues = op.accumulate;
    return run(gemm, products_, pool_, resources.workspace);
  }
  if (!op.accumulate) {  // experts without rows
    const std::int64_t n = op.dy.shape[1], experts = op.dw.rows() / n;
    std::int64_t next = 0;
    const auto clear = [&](std::int64_t end) {
      if (end > next) execute(FillZero{op.dw.slice(next * n, (end - next) * n)}, resources);
    };
    for_each_expert(op.sorted_experts, [&](std::int64_t expert, std::int64_t, std::int64_t) {
      clear(expert);
      next = expert + 1;
    });
    clear(experts);
  }
  run_grouped(op, products_, pool_, resources.workspace);
}

std::size_t CpuBackend::workspace_bytes(const GroupedLinearForward& op) const {
  return bytes_of_any_rows(op, op.x.rows(), products_, pool_.size());
}
std::size_t CpuBackend::workspace_bytes(const GroupedLinearBackwardInput& op) const {
  return bytes_of_any_rows(op, op.dy.rows(), products_, pool_.size());
}
std::size_t CpuBackend::workspace_bytes(const GroupedLinearBackwardWeight& op) const {
  if (op.dw.dtype == DType::kF64) return 0;
  const Gemm gemm = gemm_of(of_rows(op, 0, 0, op.x.rows()));
  return is_fp8(gemm.a.matrix.dtype)
             ? workspace_bytes_of_eight_bits_any_reduction(gemm, products_, pool_.size())
             : workspace_bytes_of_any_reduction(gemm, products_, pool_.size());
}

}  // namespace stoa::ops::cpu
