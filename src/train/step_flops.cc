#include "train/step_flops.h"

#include <algorithm>

#include "train/training_plan.h"

namespace stoa::train {

double executed_flops_per_token(const model::ModelSpec& model, std::int64_t sequence) {
  const model::RecomputeConfig& recompute = model.config.recompute;
  double again = 0;  // share of the layers whose forward pass runs twice
  if (recompute.granularity == model::RecomputeGranularity::kFull) {
    again = 1;
    if (recompute.method == model::RecomputeMethod::kBlock && recompute.num_layers)
      again = std::min(
          1.0, static_cast<double>(*recompute.num_layers) / static_cast<double>(model.config.num_layers));
  }
  double in_layers = 0;
  for (const auto& tensor : model::canonical_tensors(model))
    if (tensor.name.find("layers.") != std::string::npos)
      in_layers += static_cast<double>(tensor.shape.elements());
  const double attention = static_cast<double>(model.config.num_layers * model.config.num_attention_heads *
                                               model.config.head_size() * sequence);
  return model_flops_per_token(model, sequence) + again * 2 * (in_layers + attention);
}

}  // namespace stoa::train
