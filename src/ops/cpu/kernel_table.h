// Which compilation of a kernel file serves an instruction set (cmake/StoaKernels.cmake).
//
// A family of kernels declares its table of function pointers and, per instruction set, the function that
// returns it:
//   struct NormKernels { void (*forward)(…); };
//   STOA_FOR_EACH_ISA(const NormKernels& norm_kernels())
// norm_kernels.cc defines STOA_ISA::norm_kernels(); callers write STOA_KERNELS(isa, norm_kernels).
// Kernels that have nothing to gain from products of bf16 numbers declare their function by
//   STOA_FOR_EACH_WIDTH(const NormKernels&, norm_kernels)
// and are not compiled once more for avx512bf16, where every instruction would be the same.
#pragma once

#include "ops/cpu/instruction_set.h"

#if defined(__x86_64__)
#define STOA_FOR_EACH_ISA(declaration) \
  namespace portable {                 \
  declaration;                         \
  }                                    \
  namespace avx2 {                     \
  declaration;                         \
  }                                    \
  namespace avx512 {                   \
  declaration;                         \
  }                                    \
  namespace avx512bf16 {               \
  declaration;                         \
  }
#define STOA_FOR_EACH_WIDTH(type, function) \
  namespace portable {                      \
  type function();                          \
  }                                         \
  namespace avx2 {                          \
  type function();                          \
  }                                         \
  namespace avx512 {                        \
  type function();                          \
  }                                         \
  namespace avx512bf16 {                    \
  using avx512::function;                   \
  }
#define STOA_KERNELS(isa, function)                                                \
  ((isa) >= ::stoa::ops::cpu::InstructionSet::kAvx512Bf16 ? avx512bf16::function() \
   : (isa) == ::stoa::ops::cpu::InstructionSet::kAvx512   ? avx512::function()     \
   : (isa) == ::stoa::ops::cpu::InstructionSet::kAvx2     ? avx2::function()       \
                                                          : portable::function())
#else
#define STOA_FOR_EACH_ISA(declaration) \
  namespace portable {                 \
  declaration;                         \
  }
#define STOA_FOR_EACH_WIDTH(type, function) \
  namespace portable {                      \
  type function();                          \
  }
#define STOA_KERNELS(isa, function) portable::function()
#endif
