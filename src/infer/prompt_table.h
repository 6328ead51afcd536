// What the encoder of p-tuning makes: the embeddings that are used in its place (nn/prompt_encoder.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/adapter_plan.h"
#include "tensor/tensor_view.h"

namespace stoa::infer {

class PromptTable {
 public:
  // [tokens, hidden], in the type of the encoder's tensors, which `source` gives by canonical name, in host
  // memory. Valid as long as this.
  TensorView view(const model::ModelSpec& spec,
                  const std::function<TensorView(const std::string& canonical)>& source);

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace stoa::infer
