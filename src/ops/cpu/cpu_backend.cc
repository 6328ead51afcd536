#include "ops/cpu/cpu_backend.h"

#include "base/error.h"

namespace stoa::ops::cpu {

CpuBackend::CpuBackend(WorkerPool& pool, InstructionSet isa) : pool_(pool), isa_(isa) {
  const InstructionSet best = best_instruction_set();
  require<ConfigError>(isa <= best, "this processor has no {}: its best instruction set is {}", name_of(isa),
                       name_of(best));
}

}  // namespace stoa::ops::cpu
