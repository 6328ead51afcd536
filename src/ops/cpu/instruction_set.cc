#include "ops/cpu/instruction_set.h"

#include <array>

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

#include "base/error.h"

namespace stoa::ops::cpu {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"portable", "avx2", "avx512", "avx512-bf16", "amx-bf16"};

#if defined(__x86_64__)

struct Cpuid {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Cpuid cpuid(unsigned leaf, unsigned subleaf) {
  Cpuid r;
  if (__get_cpuid_max(0, nullptr) >= leaf) __cpuid_count(leaf, subleaf, r.eax, r.ebx, r.ecx, r.edx);
  return r;
}

bool bit(unsigned word, int index) { return ((word >> index) & 1u) != 0; }

// Register state that the operating system saves (XCR0).
std::uint64_t saved_state() {
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

// Linux saves tile data only for a process that asks (kernel 5.16 and later).
bool tile_permission() {
#if defined(__linux__)
  constexpr long kArchReqXcompPerm = 0x1023, kXtileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXtileData) == 0;
#else
  return false;
#endif
}

InstructionSet detect() {
  const Cpuid one = cpuid(1, 0), seven = cpuid(7, 0), seven1 = seven.eax >= 1 ? cpuid(7, 1) : Cpuid{};
  const bool osxsave = bit(one.ecx, 27);
  const std::uint64_t state = osxsave ? saved_state() : 0;
  const auto saves = [&](std::uint64_t mask) { return (state & mask) == mask; };
  // AVX, FMA, F16C; AVX2
  if (!saves(0x6) || !bit(one.ecx, 28) || !bit(one.ecx, 12) || !bit(one.ecx, 29) || !bit(seven.ebx, 5))
    return InstructionSet::kPortable;
  // AVX-512 F, DQ, CD, BW, VL; opmask and upper register state
  if (!saves(0xe6) || !bit(seven.ebx, 16) || !bit(seven.ebx, 17) || !bit(seven.ebx, 28) ||
      !bit(seven.ebx, 30) || !bit(seven.ebx, 31))
    return InstructionSet::kAvx2;
  // AVX-512-BF16, AVX-512-VNNI
  if (!bit(seven1.eax, 5) || !bit(seven.ecx, 11)) return InstructionSet::kAvx512;
  // AMX-TILE, AMX-BF16, AMX-INT8; tile configuration and data state
  if (!saves(0x60000) || !bit(seven.edx, 24) || !bit(seven.edx, 22) || !bit(seven.edx, 25) ||
      !tile_permission())
    return InstructionSet::kAvx512Bf16;
  return InstructionSet::kAmxBf16;
}

#else

InstructionSet detect() { return InstructionSet::kPortable; }

#endif

}  // namespace

std::string_view name_of(InstructionSet isa) { return kNames[static_cast<std::size_t>(isa)]; }

InstructionSet instruction_set_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<InstructionSet>(i);
  fail<ConfigError>("unknown instruction set '{}': expected portable, avx2, avx512, avx512-bf16 or amx-bf16",
                    name);
}

InstructionSet best_instruction_set() { return detect(); }

}  // namespace stoa::ops::cpu
