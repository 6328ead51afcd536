#pragma once

#include <memory>
#include <string>

#include "ops/cuda/attention_library.h"

namespace stoa::ops::cuda {

// Attention by cuDNN's graph interface. DeviceError where cuDNN is not found or does not start. `version`:
// "9.19.0".
std::shared_ptr<AttentionLibrary> make_cudnn_attention(bool deterministic, std::string& version);

}  // namespace stoa::ops::cuda
