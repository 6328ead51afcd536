#include "ops/cuda/cuda_machine.h"

#include <algorithm>

#include "device/cuda/cuda_device.h"
#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/cuda_transfer.h"
#include "ops/cuda/kernels/grouped_linear.h"
#include "ops/cuda/libraries/cublaslt_matmul.h"
#include "ops/cuda/libraries/make_attention.h"

namespace stoa::ops::cuda {

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
  machine.device = std::move(device);
  const bool warpgroups = options.warpgroups && has_warpgroup_products(info.major, info.minor);
  machine.backend = std::make_unique<CudaBackend>(std::move(matmul), std::move(attention), DeviceKind::kCuda,
                                                  warpgroups ? info.multiprocessors : 0);
  return machine;
}

}  // namespace stoa::ops::cuda
