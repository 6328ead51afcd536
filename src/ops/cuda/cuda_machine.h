// The GPU as a machine: device, libraries and backend. Plain C++; only programs built with CUDA have
// make_cuda_machine().
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/device.h"
#include "ops/backend.h"

namespace stoa::ops::cuda {

struct CudaOptions {
  std::optional<int> device = {};  // none: by local_rank
  int local_rank = 0;              // among the ranks of this host, which take its devices in turn
  bool tf32 = false;               // fp32 products by TF32 tensor cores
  bool tune = false;               // time matrix algorithms on first use
  bool deterministic = false;      // the same bits in every run on the same GPU
  bool graphs = false;             // training steps as CUDA graphs
  bool own_attention = false;      // never the attention library
  bool plain_kernels = false;      // KernelChoice::plain()

  // "tf32,tune,deterministic,graphs,own-attention,plain-kernels,device=1"; ConfigError names the valid words.
  static CudaOptions parse(const std::string& text);
};

struct CudaMachine {
  std::unique_ptr<Device> device;
  std::unique_ptr<Backend> backend;
  std::string description;  // "NVIDIA H200, sm_90, 132 multiprocessors, cuBLASLt 13.1.0, cuDNN 9.19.0"
  // A sentence for each kernel that failed its self-check, for the first machine of a process with this
  // device. The descriptions of all of them name what is not used.
  std::vector<std::string> warnings;
  double self_check_seconds = 0;  // that the check took
};

// NoDeviceError where there is no GPU or no driver; DeviceError where there is no cuBLASLt, or where kernels
// compute wrongly (self_check.h).
CudaMachine make_cuda_machine(const CudaOptions& options);

}  // namespace stoa::ops::cuda
