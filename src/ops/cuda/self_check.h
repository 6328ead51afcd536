// Do the kernels compute on this GPU what we think? Asked when a machine is made. On the emulator their
// source is tested; what the compiler and the GPU make of it is not.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/backend.h"
#include "ops/cuda/kernel_choice.h"

namespace stoa::ops::cuda {

using MakeBackend = std::function<std::unique_ptr<Backend>(const KernelChoice&)>;

struct TrustedKernels {
  KernelChoice kernels;
  std::vector<std::string> lost;        // "products of experts by warpgroups"
  std::vector<std::string> complaints;  // a sentence for each of them
  double seconds = 0;                   // that it took to find out
};

// `wanted` without the kernels that give wrong results on `device`: products of experts, linear layers of a
// few tokens, attention of a few queries over a cache. DeviceError where what would take their place is wrong
// too, and where the device fails.
TrustedKernels trusted_kernels(Device& device, const KernelChoice& wanted, const MakeBackend& make);

}  // namespace stoa::ops::cuda
