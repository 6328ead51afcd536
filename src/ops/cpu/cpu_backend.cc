#include "ops/cpu/cpu_backend.h"

#include "base/error.h"

namespace stoa::ops::cpu {

CpuBackend::CpuBackend(WorkerPool& pool, InstructionSet isa, bool rows_apart)
    : CpuBackend(pool, isa, matrix_kernels(isa, rows_apart)) {
  const InstructionSet best = best_instruction_set();
  require<ConfigError>(isa <= best, "this processor has no {}: its best instruction set is {}", name_of(isa),
                       name_of(best));
}

CpuBackend::CpuBackend(WorkerPool& pool, InstructionSet isa, const MatrixKernels& products)
    : pool_(pool), isa_(isa), products_(products) {}

}  // namespace stoa::ops::cpu
