// Which parameters of a model are trained: the patterns of model.freeze, in the order given. A pattern is the
// beginning of canonical names up to a dot ("embedding", "layers.3.mlp"); * stands for any text, and A-B in
// place of a number for those from A to B ("layers.0-3"). What matches is frozen, or with ! before the
// pattern trained again ("*", "!head").
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "model/model_spec.h"

namespace stoa::model {

// `pattern` is without !.
bool matches_name(std::string_view pattern, std::string_view name);

bool is_trained(std::span<const std::string> freeze, std::string_view name);
// ConfigError: canonical tensors that are held as one are not all trained or all frozen.
bool is_trained(std::span<const std::string> freeze, const nn::ParamSpec& spec);

// ActiveWeights::first_trained, without counting.
std::int64_t first_trained_layer(const ModelSpec& spec);

// ConfigError: a pattern matches none of the model's tensors, or nothing is trained.
void check_freeze(const ModelSpec& spec);

}  // namespace stoa::model
