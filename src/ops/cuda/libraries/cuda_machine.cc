#include "ops/cuda/cuda_machine.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "device/cuda/cuda_device.h"
#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/cuda_transfer.h"
#include "ops/cuda/kernels/grouped_linear.h"
#include "ops/cuda/libraries/cublaslt_matmul.h"
#include "ops/cuda/libraries/make_attention.h"
#include "ops/cuda/self_check.h"

namespace stoa::ops::cuda {

namespace {

// Once for each device of this process, whose ranks may be threads that share it: the others wait, and have
// no complaints.
TrustedKernels checked_once(stoa::cuda::CudaDevice& device, const KernelChoice& wanted,
                            const MakeBackend& make) {
  static std::mutex mutex;
  static std::map<std::pair<int, bool>, TrustedKernels> known;
  const std::lock_guard lock(mutex);
  const std::pair key(device.info().index, wanted == KernelChoice::plain());
  if (const auto found = known.find(key); found != known.end()) {
    TrustedKernels out = found->second;
    out.complaints.clear();
    return out;
  }
  return known[key] = trusted_kernels(device, wanted, make);
}

}  // namespace

CudaMachine make_cuda_machine(const CudaOptions& options) {
  const int index =
      options.device ? *options.device : options.local_rank % std::max(stoa::cuda::device_count(), 1);
  auto device =
      std::make_unique<stoa::cuda::CudaDevice>(index, options.graphs, std::make_unique<CudaTransfer>());
  const stoa::cuda::DeviceInfo& info = device->info();
  MatmulOptions matmul_options;
  matmul_options.tf32 = options.tf32;
  matmul_options.tune = options.tune;
  matmul_options.deterministic = options.deterministic;
  auto matmul = std::make_shared<CublasLtMatmul>(matmul_options);
  std::string attention_text = "own attention";
  std::shared_ptr<AttentionLibrary> attention;
  if (!options.own_attention) attention = make_attention_library(options.deterministic, attention_text);

  CudaMachine machine;
  const std::size_t version = matmul->version();
  machine.description =
      fmt::format("{}, sm_{}{}, {} multiprocessors, cuBLASLt {}.{}.{}, {}", info.name, info.major, info.minor,
                  info.multiprocessors, version / 10000, version / 100 % 100, version % 100, attention_text);
  KernelChoice wanted;
  if (options.plain_kernels)
    wanted = KernelChoice::plain(), machine.description += ", plain kernels";
  else if (has_warpgroup_products(info.major, info.minor))
    wanted.warpgroup_blocks = info.multiprocessors;
  const MakeBackend make = [&](const KernelChoice& kernels) {
    return std::make_unique<CudaBackend>(matmul, attention, DeviceKind::kCuda, kernels);
  };
  TrustedKernels trusted = checked_once(*device, wanted, make);
  if (!trusted.lost.empty())
    machine.description += fmt::format(", self-check failed: without {}", fmt::join(trusted.lost, ", "));
  machine.self_check_seconds = trusted.seconds;
  machine.warnings = std::move(trusted.complaints);
  machine.backend = make(trusted.kernels);
  machine.device = std::move(device);
  return machine;
}

}  // namespace stoa::ops::cuda
