// Sees the tensors of a pass: dumps of a step, for comparison with another run.
#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/tensor_view.h"

namespace stoa::nn {

// Channels [first, …) of a tensor that has `total` of them, where tensor parallelism has cut it; total 0: it
// is whole.
struct Columns {
  std::int64_t first = 0, total = 0;
};

// Tensors are named after the layer that makes them, "layers.3.attention.output". Dimension 0 is the token of
// the microbatch (all of them, or this rank's under sequence parallelism), the others are its channels. A
// probe reads at once: the memory is used again.
class Probe {
 public:
  virtual ~Probe() = default;
  // A tensor of the forward pass. Ignored while a backward pass makes it again.
  virtual void forward(std::string_view layer, std::string_view tensor, TensorView view, Columns columns) = 0;
  // The gradient with respect to the tensor of that name.
  virtual void gradient(std::string_view layer, std::string_view tensor, TensorView view,
                        Columns columns) = 0;
  // Logits of tokens [first, first + rows), columns from `vocabulary` on are padding.
  virtual void logits(TensorView view, std::int64_t first, std::int64_t vocabulary) = 0;
};

}  // namespace stoa::nn
