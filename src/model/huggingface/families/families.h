// The families, each in a file of its own: what stands in the table of family.cc.
#pragma once

#include "model/huggingface/family.h"

namespace stoa::model::huggingface {

extern const Family kGptOss;
extern const Family kGpt2, kLlama, kMistral, kQwen2, kQwen3, kMixtral, kQwen3Moe, kDeepseekV3, kGptNeox,
    kPhi3, kQwen3Next, kQwen35Text, kQwen35MoeText, kOlmo2, kGemma2, kGemma3Text, kBloom, kBert, kRoberta,
    kT5, kMt5;
// Stoa's own configuration, for combinations of options that no family has.
extern const Family kStoaGpt;

}  // namespace stoa::model::huggingface
