#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/elementwise_kernels.h"
#include "ops/cpu/operands.h"

namespace stoa::ops::cpu {

void CpuBackend::execute(const Rotary& op, Resources resources) {
  if (needs_reference(op)) return ReferenceBackend::execute(op, resources);
  RotaryArgs args;
  args.x = rows_of(op.x);
  args.heads = op.x.shape[1];
  args.half = op.table.shape.back();
  args.positions = op.positions.as<std::int32_t>();
  args.table = op.table.as<float>();
  args.inverse = op.inverse;
  const ElementwiseKernels& kernels = STOA_KERNELS(isa_, elementwise_kernels);
  run_pieces(pool_, op.x.rows(), rows_per_task(args.heads * args.x.columns),
             [&](std::int64_t begin, std::int64_t end) { kernels.rotary(args, begin, end); });
}

}  // namespace stoa::ops::cpu
