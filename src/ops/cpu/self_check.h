// Are the tiles of this processor what we think? Asked once before they are used.
#pragma once

#include <string>

#include "ops/cpu/gemm.h"

namespace stoa::ops::cpu {

// Empty when both give the same bf16 products within rounding, for whole tiles and for tails; else what
// differs.
std::string difference(const MatrixKernels& candidate, const MatrixKernels& trusted);

// `isa`; but when that is amx-bf16 and `tiles` multiply wrongly, avx512-bf16, and `complaint` says so.
InstructionSet trusted_instruction_set(InstructionSet isa, const MatrixKernels& tiles,
                                       std::string& complaint);
InstructionSet trusted_instruction_set(InstructionSet isa, std::string& complaint);

}  // namespace stoa::ops::cpu
