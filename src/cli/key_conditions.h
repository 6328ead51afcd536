// Where keys of a run count and where they do nothing (config/condition.h). Conditions that keep a model or a
// run from being made at all stand with the declarations of the keys.
#pragma once

#include <vector>

#include "config/condition.h"

namespace stoa::cli {

std::vector<config::Condition> key_conditions();

}  // namespace stoa::cli
