#include "cli/machine_factory.h"

#include "base/console.h"
#include "base/cores.h"
#include "base/nearest.h"
#include "device/host/host_device.h"
#include "device/no_device_error.h"
#include "ops/check/check_backend.h"
#include "ops/check/offload_backend.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/self_check.h"
#include "ops/cuda/cuda_machine.h"
#include "ops/reference/reference_backend.h"

namespace stoa::cli {
namespace {

#ifdef STOA_HAS_CUDA
ops::cuda::CudaMachine make_gpu(const ops::cuda::CudaOptions& options) {
  ops::cuda::CudaMachine gpu = ops::cuda::make_cuda_machine(options);
  for (const std::string& warning : gpu.warnings) Console().warn(warning);
  return gpu;
}
#else
ops::cuda::CudaMachine make_gpu(const ops::cuda::CudaOptions&) {
  fail<ConfigError>("this program was built without CUDA: build it with the preset 'cuda' to use a GPU");
}
#endif

void make_backend(const MachineOptions& options, infer::Machine& machine) {
  WorkerPool& pool = *machine.pool;
  std::string& description = machine.description;
  const std::vector<std::string> known{"cpu", "cuda", "reference", "check", "check-cuda"};
  auto cuda_options = ops::cuda::CudaOptions::parse(options.cuda);
  cuda_options.local_rank = options.local_rank;
  require<ConfigError>(options.cuda.empty() || options.backend == "cuda" || options.backend == "check-cuda",
                       "CUDA options '{}' are given, but the backend is {}", options.cuda, options.backend);
  if (options.backend == "cuda") {
    ops::cuda::CudaMachine gpu = make_gpu(cuda_options);
    description = gpu.description;
    machine.device = std::move(gpu.device);
    machine.backend = std::move(gpu.backend);
    return;
  }
  if (options.backend == "reference") {
    description = "reference (fp64 arithmetic, slow)";
    machine.backend = std::make_unique<ops::ReferenceBackend>();
    return;
  }
  const auto isa = choose_instruction_set(options.instruction_set);
  auto cpu = std::make_unique<ops::cpu::CpuBackend>(pool, isa, options.rows_apart);
  description =
      fmt::format("cpu, {}, {} thread{}", ops::cpu::name_of(isa), pool.size(), pool.size() == 1 ? "" : "s");
  if (options.backend == "cpu") {
    machine.backend = std::move(cpu);
    return;
  }
  if (options.backend == "check") {
    description += ", checked against the reference";
    auto reference = std::make_unique<ops::ReferenceBackend>();
    machine.backend = std::make_unique<ops::CheckBackend>(*cpu, *reference);
    machine.parts.push_back(std::move(cpu));
    machine.parts.push_back(std::move(reference));
    return;
  }
  if (options.backend == "check-cuda") {
    ops::cuda::CudaMachine gpu = make_gpu(cuda_options);
    description = fmt::format("{}, checked against {}", gpu.description, description);
    auto offload = std::make_unique<ops::OffloadBackend>(std::move(gpu.device), std::move(gpu.backend));
    machine.backend = std::make_unique<ops::CheckBackend>(*offload, *cpu);
    machine.parts.push_back(std::move(offload));
    machine.parts.push_back(std::move(cpu));
    return;
  }
  fail<ConfigError>("unknown backend '{}': expected {}{}", options.backend, fmt::join(known, ", "),
                    did_you_mean(options.backend, known));
}

}  // namespace

ops::cpu::InstructionSet choose_instruction_set(const std::optional<std::string>& name) {
  const auto best = ops::cpu::best_instruction_set();
  const auto wanted = name ? ops::cpu::instruction_set_from_name(*name) : best;
  // Its tiles can be checked only on processors that have them; CpuBackend rejects unsupported sets.
  if (wanted > best) return wanted;
  std::string complaint;
  const auto isa = ops::cpu::trusted_instruction_set(wanted, complaint);
  if (!complaint.empty()) Console().warn(complaint);
  return isa;
}

int threads_of(const MachineOptions& options) {
  const auto threads = options.threads.value_or(std::max(1, available_cores() / options.ranks));
  require<ConfigError>(threads >= 1 && threads <= 1024,
                       "the number of threads must be between 1 and 1024, got {}", threads);
  return static_cast<int>(threads);
}

infer::Machine make_machine(const MachineOptions& options) {
  infer::Machine machine;
  machine.pool = std::make_unique<WorkerPool>(threads_of(options));
  machine.device = std::make_unique<HostDevice>();
  make_backend(options, machine);
  machine.stream = machine.device->create_stream();
  return machine;
}

namespace {

// Whether a GPU computes.
bool on_gpu(const MachineOptions& options) {
  return options.backend == "cuda" || options.backend == "check-cuda";
}

}  // namespace

infer::Machine make_planning_machine(const MachineOptions& options) {
  return make_planning_machine(options, [&]() -> infer::Machine {
#ifdef STOA_HAS_CUDA
    return make_machine(options);
#else
    throw NoDeviceError("this program was built without CUDA");
#endif
  });
}

infer::Machine make_planning_machine(const MachineOptions& options, const infer::MakeMachine& make_gpu) {
  std::optional<infer::Machine> gpu;
  std::string missing = "there is none here to ask";
  if (on_gpu(options)) {
    try {
      gpu = make_gpu();
    } catch (const NoDeviceError&) {
    } catch (const DeviceError& error) {
      missing = "the one here cannot be used";
      Console().warn(fmt::format("the GPU of this machine cannot be used for the plan: {}", error.what()));
    }
  }
  // The CPU's kernels say how much scratch memory they need.
  MachineOptions host = options;
  if (on_gpu(options)) host.backend = "cpu", host.cuda.clear();
  infer::Machine real = gpu ? std::move(*gpu) : make_machine(host);
  infer::Machine meta = infer::make_meta_machine(real);
  if (on_gpu(options) && !gpu)
    meta.description =
        fmt::format("plan for a GPU, with the scratch memory of {}: {}", real.description, missing);
  meta.pool = std::move(real.pool);
  meta.parts = std::move(real.parts);
  meta.parts.push_back(std::move(real.backend));
  return meta;
}

}  // namespace stoa::cli
