// Maximal update parametrisation (muP; Yang et al. 2022, "Tensor Programs V", 2203.03466, tables 3 and 8):
// how initial values and learning rates go with the width of a model, so that a rate found at a small width
// is right at a large one. m is hidden_size / mup_base_hidden_size:
//
//   tensors                           start at         Adam's rate
//   matrices of the layers            std / sqrt(m)    rate / m
//   embeddings, biases, norms, head   std              rate
//   routers                           std / m          rate / m
//   logits                            x mup_output_mult / m
//   scores of attention               x sqrt(mup_base_head_dim) / head_size instead of 1 / sqrt(head_size)
//
// A factor of what a model computes is held in a parameter instead: that of the logits in the final norm,
// that of the scores in the projection of queries (or their norm). Under Adam that is the same training -
// initial values and rate carry the factor, decay and epsilon are divided by it - and the model stays one
// that every reader of its files knows. Norms of gradients are those of the parameters as they are held.
#pragma once

#include <string_view>

#include "model/config.h"
#include "nn/module.h"

namespace stoa::model {

// The factors for a canonical tensor; all 1 without use_mup.
nn::ParamScale mup_scale(const ModelConfig& config, std::string_view name, const Shape& shape);
// Sets the factors of every parameter.
void apply_mup(const ModelConfig& config, nn::ParamList& params);

}  // namespace stoa::model
