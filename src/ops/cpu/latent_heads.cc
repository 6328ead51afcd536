#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/operands.h"

namespace stoa::ops::cpu {

// Copies and a sum over heads, bound by memory: the reference's, shared out among the workers.
void CpuBackend::execute(const LatentHeads& op, Resources resources) {
  run_pieces(
      pool_, op.k.rows(), rows_per_task(op.k.shape.inner()), [&](std::int64_t begin, std::int64_t end) {
        const auto rows = [&](const TensorView& x) { return x.slice(begin, end - begin); };
        ReferenceBackend::execute(LatentHeads{rows(op.kv), rows(op.rope), rows(op.k), rows(op.v)}, resources);
      });
}

void CpuBackend::execute(const LatentHeadsBackward& op, Resources resources) {
  run_pieces(pool_, op.dk.rows(), rows_per_task(op.dk.shape.inner()),
             [&](std::int64_t begin, std::int64_t end) {
               const auto rows = [&](const TensorView& x) { return x.slice(begin, end - begin); };
               ReferenceBackend::execute(
                   LatentHeadsBackward{rows(op.dk), rows(op.dv), rows(op.dkv), rows(op.drope)}, resources);
             });
}

}  // namespace stoa::ops::cpu
