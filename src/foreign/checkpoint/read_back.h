// What another program would make of a model's description that was written for it.
#pragma once

#include <functional>
#include <string_view>

#include "model/config.h"
#include "model/model_spec.h"

namespace stoa::foreign {

// ConfigError, where `read` gives a model that computes something else than `spec`, or throws; it lists what
// `whose` ("Megatron") would lose.
void require_same_model(std::string_view whose, const model::ModelSpec& spec,
                        const std::function<model::ModelConfig()>& read);

}  // namespace stoa::foreign
