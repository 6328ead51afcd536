// Keys of every configuration of transformers, nested ones too.
#pragma once

#include "model/huggingface/json_keys.h"

namespace stoa::model::huggingface {

// Those that do not change what a model computes.
void ignore_common_keys(JsonKeys& keys);

}  // namespace stoa::model::huggingface
