// Do weights of one configuration mean the same function in another? Equal shapes are not enough: heads,
// activation, epsilon and rotary base leave no trace in them.
#pragma once

#include <vector>

#include "config/difference.h"
#include "model/config.h"

namespace stoa::model {

enum class Purpose {
  kResume,  // the same run continues: the function must be the same
  kStart,   // a run starts from weights: positions may be stretched and windows changed on purpose
};

// Fields (paths below `model`) in which two configurations with their vocabularies filled in mean different
// functions of the same weights. What only training knows (dropout, initial weights, recomputation, length
// of samples, layout) does not count.
std::vector<config::Difference> function_differences(const ModelConfig& found, const ModelConfig& expected,
                                                     Purpose purpose);

}  // namespace stoa::model
