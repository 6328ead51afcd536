#pragma once

#include <memory>
#include <string>

#include "ops/cuda/attention_library.h"

namespace stoa::ops::cuda {

// cuDNN, or null where the program was built without its frontend or the library is not found; `text` says
// which, for people.
std::shared_ptr<AttentionLibrary> make_attention_library(bool deterministic, std::string& text);

}  // namespace stoa::ops::cuda
