// Descriptions of tensors and of memory, before any is allocated.
#pragma once

#include <cstddef>
#include <string>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace stoa {

// Purposes of memory: `stoa plan memory` prints them and the arena measures them.
enum class MemoryCategory : std::uint8_t {
  kWeights,        // parameters in compute precision
  kGradients,      // main gradients
  kMaster,         // fp32 master weights, if separate from kWeights
  kOptimizer,      // moments
  kActivations,    // saved for backward, per microbatch in flight
  kStash,          // weight-gradient stash between input- and weight-gradient passes
  kScratch,        // temporaries of one operation or block, and workspaces of kernels
  kBatch,          // token ids, labels, masks
  kCommunication,  // communication buffers
  kKvCache,        // keys and values of generation
  kScalars,        // loss, norm, rates
  kTeacher,        // what the teacher of a distillation says of a step's tokens; its weights are kWeights
  kOffloaded,      // saved activations that are in host memory between forward and backward
  kCount
};
std::string_view name_of(MemoryCategory category);
// Whether the memory is on the host, whatever the device.
constexpr bool on_host(MemoryCategory category) { return category == MemoryCategory::kOffloaded; }

struct TensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;

  std::size_t bytes() const { return static_cast<std::size_t>(shape.elements()) * size_of(dtype); }
};

}  // namespace stoa
