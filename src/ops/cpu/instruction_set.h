// Instruction sets that kernels are compiled for; the best one of this machine is chosen at run time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stoa::ops::cpu {

enum class InstructionSet : std::uint8_t { kPortable, kAvx2, kAvx512, kAvx512Bf16, kAmxBf16 };
std::string_view name_of(InstructionSet isa);  // "portable", "avx2", "avx512", "avx512-bf16", "amx-bf16"
InstructionSet instruction_set_from_name(std::string_view name);  // ConfigError lists the names
InstructionSet best_instruction_set();                            // of the processor that runs this

}  // namespace stoa::ops::cpu
