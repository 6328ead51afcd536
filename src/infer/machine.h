// What a rank computes with. Concrete devices and backends are named in one place only (cli/machine_factory).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/worker_pool.h"
#include "device/device.h"
#include "ops/backend.h"

namespace stoa::infer {

struct Machine {
  std::unique_ptr<WorkerPool> pool;                  // none on a meta machine
  std::vector<std::unique_ptr<ops::Backend>> parts;  // backends that `backend` refers to (the two of check,
                                                     // the one that a plan counts for)
  std::unique_ptr<Device> device;
  std::unique_ptr<ops::Backend> backend;
  std::unique_ptr<Stream> stream;
  std::string description;  // "cpu, avx512-bf16, 2 threads"
};

// Makes the real machine. Called once the user's input has been checked, because it is costly.
using MakeMachine = std::function<Machine()>;

// Counts what `machine` would need, without memory. `machine` outlives it.
Machine make_meta_machine(const Machine& machine);

}  // namespace stoa::infer
