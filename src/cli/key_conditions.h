// Which keys of a run have an effect when (config/condition.h). Conditions without which a model or a run
// cannot be created are next to the declarations of the keys.
#pragma once

#include <vector>

#include "config/condition.h"

namespace stoa::cli {

std::vector<config::Condition> key_conditions();

}  // namespace stoa::cli
