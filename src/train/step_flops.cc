#include "train/step_flops.h"

#include <algorithm>

namespace stoa::train {
namespace {

double number(std::int64_t n) { return static_cast<double>(n); }

// FLOPs of a part's forward pass.
struct Forward {
  double weights = 0, attention = 0;
};

// A sample's FLOPs in layer `layer` of an encoder-decoder: projections and feed-forward; scores and values,
// where causal attention counts half.
Forward pair_layer(const model::ModelConfig& c, std::int64_t layer) {
  const double h = number(c.hidden_size), inner = number(c.num_attention_heads * c.head_size()),
               mlp = (model::is_gated(c.activation) ? 6 : 4) * h * number(c.ffn_size()),
               s = number(c.source_length()), t = number(c.sample_length() - c.source_length());
  if (layer < c.encoder_layers()) return {s * (8 * h * inner + mlp), 4 * s * s * inner};
  return {t * (8 * h * inner + mlp) + 4 * (s + t) * h * inner, 2 * t * t * inner + 4 * s * t * inner};
}

struct StepFlops {
  double model = 0;
  double layers = 0;  // forward passes of layers that run backward
};

StepFlops step_flops(const model::ModelSpec& model, std::int64_t sequence) {
  const model::ModelConfig& c = model.config;
  const model::ActiveWeights active = model::active_weights(model);
  const bool pair = c.source_length() > 0, both_ways = c.kind == model::ModelKind::kBert;
  const std::int64_t layers = c.num_layers;
  StepFlops out;
  // `backward`: the part hands the gradient of its input on.
  const auto add = [&](const Forward& forward, const model::ActiveWeights::Part& part, bool backward) {
    out.model += forward.weights * (1 + (backward ? 1 : 0) + part.trained_share()) +
                 forward.attention * (backward ? 3 : 1);
  };
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const auto& part = active.layers[static_cast<std::size_t>(layer)];
    const Forward forward =
        pair ? pair_layer(c, layer)
             : Forward{2 * number(part.all),
                       (both_ways ? 4 : 2) * number(c.num_attention_heads * c.head_size() * sequence)};
    add(forward, part, active.runs_backward(layer));
    if (active.runs_backward(layer)) out.layers += forward.weights + forward.attention;
  }
  if (pair) {
    const std::int64_t targets = c.sample_length() - c.source_length();
    add({2 * number(targets * c.hidden_size * model.vocabulary)},
        c.ties_head() ? active.embedding : active.head, active.runs_backward(layers - 1));
    return {out.model / number(c.sample_length()), out.layers / number(c.sample_length())};
  }
  // A tied embedding is the head's matrix.
  add({2 * number(active.embedding.all)}, active.embedding,
      active.runs_backward(c.ties_head() ? layers - 1 : -1));
  add({2 * number(active.head.all)}, active.head, active.runs_backward(layers - 1));
  return out;
}

}  // namespace

double model_flops_per_token(const model::ModelSpec& model, std::int64_t sequence) {
  return step_flops(model, sequence).model;
}

double executed_flops_per_token(const model::ModelSpec& model, std::int64_t sequence) {
  const model::RecomputeConfig& recompute = model.config.recompute;
  double again = 0;  // share of the layers whose forward pass runs twice
  if (recompute.granularity == model::RecomputeGranularity::kFull) {
    again = 1;
    if (recompute.method == model::RecomputeMethod::kBlock && recompute.num_layers)
      again = std::min(1.0, number(*recompute.num_layers) / number(model.config.num_layers));
  }
  const StepFlops flops = step_flops(model, sequence);
  return flops.model + again * flops.layers;
}

}  // namespace stoa::train
