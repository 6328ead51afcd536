#include "cli/machine_factory.h"

#include <sched.h>

#include "base/nearest.h"
#include "device/host/host_device.h"
#include "device/meta/meta_device.h"
#include "ops/check/check_backend.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/meta/meta_backend.h"
#include "ops/reference/reference_backend.h"

namespace stoa::cli {
namespace {

// Cores this process may run on.
int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

// A backend that owns what it decorates.
class OwningCheckBackend final : public ops::CheckBackend {
 public:
  OwningCheckBackend(std::unique_ptr<ops::Backend> tested, std::unique_ptr<ops::Backend> reference)
      : CheckBackend(*tested, *reference), tested_(std::move(tested)), reference_(std::move(reference)) {}

 private:
  std::unique_ptr<ops::Backend> tested_, reference_;
};

std::unique_ptr<ops::Backend> make_backend(const MachineOptions& options, WorkerPool& pool, std::string& description) {
  const auto isa = options.instruction_set ? ops::cpu::instruction_set_from_name(*options.instruction_set)
                                           : ops::cpu::best_instruction_set();
  const std::vector<std::string> known{"cpu", "reference", "check"};
  if (options.backend == "reference") {
    description = "reference (fp64 arithmetic, slow)";
    return std::make_unique<ops::ReferenceBackend>();
  }
  auto cpu = std::make_unique<ops::cpu::CpuBackend>(pool, isa);
  description = fmt::format("cpu, {}, {} thread{}", ops::cpu::name_of(isa), pool.size(), pool.size() == 1 ? "" : "s");
  if (options.backend == "cpu") return cpu;
  if (options.backend == "check") {
    description += ", checked against the reference";
    return std::make_unique<OwningCheckBackend>(std::move(cpu), std::make_unique<ops::ReferenceBackend>());
  }
  fail<ConfigError>("unknown backend '{}': expected {}{}", options.backend, fmt::join(known, ", "),
                    did_you_mean(options.backend, known));
}

}  // namespace

run::Machine make_machine(const MachineOptions& options) {
  run::Machine machine;
  const auto threads = options.threads.value_or(available_cores());
  require<ConfigError>(threads >= 1 && threads <= 1024, "the number of threads must be between 1 and 1024, got {}", threads);
  machine.pool = std::make_unique<WorkerPool>(static_cast<int>(threads));
  machine.device = std::make_unique<HostDevice>();
  machine.backend = make_backend(options, *machine.pool, machine.description);
  machine.stream = machine.device->create_stream();
  return machine;
}

run::Machine make_meta_machine(const run::Machine& machine) {
  run::Machine meta;
  meta.device = std::make_unique<MetaDevice>();
  meta.backend = std::make_unique<ops::MetaBackend>(*machine.backend);
  meta.stream = meta.device->create_stream();
  meta.description = "plan for " + machine.description;
  return meta;
}

run::Machine make_planning_machine(const MachineOptions& options) {
  run::Machine real = make_machine(options);
  run::Machine meta = make_meta_machine(real);
  meta.pool = std::move(real.pool);
  meta.profile = std::move(real.backend);
  return meta;
}

}  // namespace stoa::cli
