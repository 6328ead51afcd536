#include "model/mup.h"

#include <cmath>

namespace stoa::model {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// What the scores are proportional to.
bool holds_scores(const ModelConfig& c, std::string_view name) {
  if (c.qk_layernorm) return contains(name, ".attention.q_norm.");
  return contains(name, ".attention.q.") || contains(name, ".attention.q_b.");
}

}  // namespace

nn::ParamScale mup_scale(const ModelConfig& c, std::string_view name, const Shape& shape) {
  nn::ParamScale out;
  if (!c.mup.use_mup) return out;
  const double width = static_cast<double>(c.hidden_size) / static_cast<double>(*c.mup.mup_base_hidden_size);
  if (name.starts_with("final_norm.")) out.multiplier = c.mup.mup_output_mult / width;
  if (!name.starts_with("layers.")) return out;
  if (contains(name, ".moe.router.weight")) {
    out.multiplier = 1 / width;
  } else if (shape.rank() >= 2) {
    out.init = 1 / std::sqrt(width);
    out.rate = 1 / width;
  }
  if (holds_scores(c, name))
    out.multiplier = std::sqrt(c.mup.mup_base_head_dim.value_or(1) / static_cast<double>(c.head_size()));
  return out;
}

void apply_mup(const ModelConfig& config, nn::ParamList& params) {
  if (!config.mup.use_mup) return;
  for (std::size_t p = 0; p < params.specs().size(); ++p) {
    std::vector<nn::ParamScale> scales;
    for (const ShardPiece& piece : params.specs()[p].shard.pieces)
      scales.push_back(mup_scale(config, piece.name, piece.global));
    params.set_scales({static_cast<int>(p)}, std::move(scales));
  }
}

}  // namespace stoa::model
