// The one place that names concrete devices and backends.
#pragma once

#include <optional>
#include <string>

#include "infer/machine.h"
#include "ops/cpu/instruction_set.h"

namespace stoa::cli {

struct MachineOptions {
  // cpu, cuda, reference, check (compares cpu with reference, operation by operation), check-cuda (compares a
  // GPU with the CPU)
  std::string backend = "cpu";
  std::optional<std::int64_t> threads = {};         // none: as in threads_of()
  int ranks = 1;                                    // that share this host's cores
  int local_rank = 0;                               // of this rank on its host: selects its GPU
  std::optional<std::string> instruction_set = {};  // none: the best of this processor
  bool rows_apart = false;  // a row's bits do not depend on the others (ops/cpu/gemm.h)
  std::string cuda = {};    // text of the --cuda option: ops::cuda::CudaOptions
};

// The instruction set of this name; none: the best of this processor. If its kernels fail their self-check
// (ops/cpu/self_check.h), a warning is printed and the next best is used.
ops::cpu::InstructionSet choose_instruction_set(const std::optional<std::string>& name);

inline constexpr const char* kCudaHelp =
    "For --backend cuda, separated by commas: tf32 (fp32 GEMMs in TF32), tune (time GEMM algorithms), "
    "deterministic (the same bits in every run), graphs (steps as CUDA graphs), own-attention (without "
    "cuDNN), plain-kernels (the slower of two kernels that compute the same), device=N (for all ranks that "
    "are threads)";

// Threads per rank: the option's value, else the process's cores divided among its ranks; at least 1.
int threads_of(const MachineOptions& options);

infer::Machine make_machine(const MachineOptions& options);
// For plans: the backend on no memory at all; of a GPU that is not here, or cannot be used, the CPU's, and
// the description says so.
infer::Machine make_planning_machine(const MachineOptions& options);
// The same with another way to make a GPU's machine.
infer::Machine make_planning_machine(const MachineOptions& options, const infer::MakeMachine& make_gpu);

}  // namespace stoa::cli
