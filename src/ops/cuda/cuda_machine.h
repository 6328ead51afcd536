// The GPU as a machine: device, libraries and backend. Plain C++; only programs built with CUDA have
// make_cuda_machine().
#pragma once

#include <memory>
#include <optional>
#include <string>

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
  bool warpgroups = true;          // where the device has them; false only in tests, which compare both ways

  // "tf32,tune,deterministic,graphs,own-attention,device=1"; ConfigError names the valid words.
  static CudaOptions parse(const std::string& text);
};

struct CudaMachine {
  std::unique_ptr<Device> device;
  std::unique_ptr<Backend> backend;
  std::string description;  // "NVIDIA H200, sm_90, 132 multiprocessors, cuBLASLt 13.1.0, cuDNN 9.19.0"
};

// DeviceError where there is no driver, no GPU or no cuBLASLt.
CudaMachine make_cuda_machine(const CudaOptions& options);

}  // namespace stoa::ops::cuda
