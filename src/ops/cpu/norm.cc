#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/norm_kernels.h"
#include "ops/cpu/operands.h"

namespace stoa::ops::cpu {
namespace {

// Rows whose dgamma and dbeta are summed together; the sums of blocks are then added in order.
std::int64_t block_rows(std::int64_t rows) { return std::max<std::int64_t>(16, (rows + 63) / 64); }
std::int64_t block_count(std::int64_t rows) { return (rows + block_rows(rows) - 1) / block_rows(rows); }

// In a row of one element the gradient is what is left when all else cancels: fp64 work.
bool backward_for_reference(const NormBackward& op) { return needs_reference(op) || op.x.shape.back() == 1; }

}  // namespace

void CpuBackend::execute(const NormForward& op, Resources resources) {
  if (needs_reference(op)) return ReferenceBackend::execute(op, resources);
  NormArgs args;
  args.centred = op.kind == NormKind::kLayerNorm;
  args.epsilon = op.epsilon;
  args.x = rows_of(op.x);
  args.branch = rows_of(op.branch);
  args.sum = rows_of(op.sum);
  args.y = rows_of(op.y);
  args.gamma = op.gamma ? op.gamma.as<float>() : nullptr;
  args.beta = op.beta ? op.beta.as<float>() : nullptr;
  args.stats = op.stats ? op.stats.as<float>() : nullptr;
  args.dropout = dropout_of(op.dropout, args.x.columns);
  const NormKernels& kernels = STOA_KERNELS(isa_, norm_kernels);
  run_pieces(pool_, row_count(op.x), rows_per_task(args.x.columns),
             [&](std::int64_t begin, std::int64_t end) { kernels.forward(args, begin, end); });
}

std::size_t CpuBackend::workspace_bytes(const NormBackward& op) const {
  if (backward_for_reference(op)) return ReferenceBackend::workspace_bytes(op);
  return static_cast<std::size_t>(block_count(row_count(op.x)) * 2 * op.x.shape.back()) * sizeof(float);
}

void CpuBackend::execute(const NormBackward& op, Resources resources) {
  if (backward_for_reference(op)) return ReferenceBackend::execute(op, resources);
  NormArgs args;
  args.centred = op.kind == NormKind::kLayerNorm;
  args.x = rows_of(op.x);
  args.dy = rows_of(op.dy);
  args.dresidual = rows_of(op.dresidual);
  args.dx = rows_of(op.dx);
  args.dbranch = rows_of(op.dbranch);
  args.gamma = op.gamma ? op.gamma.as<float>() : nullptr;
  args.stats = op.stats.as<float>();
  args.dropout = dropout_of(op.dropout, args.x.columns);
  const std::int64_t columns = args.x.columns, rows = row_count(op.x);
  const NormKernels& kernels = STOA_KERNELS(isa_, norm_kernels);
  auto* partial = static_cast<float*>(resources.workspace);
  run_pieces(pool_, rows, block_rows(rows), [&](std::int64_t begin, std::int64_t end) {
    float* block = partial + begin / block_rows(rows) * 2 * columns;
    kernels.backward(args, begin, end, block, op.dbeta ? block + columns : nullptr);
  });
  run_pieces(pool_, columns, 512, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t blocks = block_count(rows);
    if (op.dgamma)
      kernels.add_partials(partial, blocks, 2 * columns, op.dgamma.as<float>(), begin, end, op.accumulate);
    if (op.dbeta)
      kernels.add_partials(partial + columns, blocks, 2 * columns, op.dbeta.as<float>(), begin, end,
                           op.accumulate);
  });
}

}  // namespace stoa::ops::cpu
