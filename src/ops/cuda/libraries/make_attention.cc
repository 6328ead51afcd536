#include "ops/cuda/libraries/make_attention.h"

#include "base/error.h"
#include "ops/cuda/libraries/cudnn_attention.h"

namespace stoa::ops::cuda {

std::shared_ptr<AttentionLibrary> make_attention_library([[maybe_unused]] bool deterministic,
                                                         std::string& text) {
#ifdef STOA_HAS_CUDNN
  try {
    std::string version;
    auto library = make_cudnn_attention(deterministic, version);
    text = "cuDNN " + version;
    return library;
  } catch (const DeviceError& error) {
    text = fmt::format("own attention ({})", error.what());
    return nullptr;
  }
#else
  text = "own attention (built without cuDNN's frontend)";
  return nullptr;
#endif
}

}  // namespace stoa::ops::cuda
