// Whether ranks can share a model as they are asked to.
#pragma once

#include "infer/engine/rank_team.h"

namespace stoa::infer {

// ConfigError: sizes of the model that the ranks do not divide, with the nearest numbers of ranks that do; a
// kind of layer that is not shared.
void check_team(const model::ModelSpec& model, const TeamShape& shape);

}  // namespace stoa::infer
