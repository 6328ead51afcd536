// What a rank computes with. Concrete devices and backends are named in one place only (cli/machine_factory).
#pragma once

#include <memory>
#include <string>

#include "base/worker_pool.h"
#include "device/device.h"
#include "ops/backend.h"

namespace stoa::run {

struct Machine {
  std::unique_ptr<WorkerPool> pool;        // none on a meta machine
  std::unique_ptr<ops::Backend> profile;   // on a meta machine: the backend whose needs are counted
  std::unique_ptr<Device> device;
  std::unique_ptr<ops::Backend> backend;
  std::unique_ptr<Stream> stream;
  std::string description;                 // "cpu, avx512-bf16, 2 threads"
};

// A machine like `machine` that touches no memory and counts what the other would need.
using MetaMachineFactory = std::unique_ptr<Machine> (*)(const Machine& machine);

}  // namespace stoa::run
