// The families, each in a file of its own: what stands in the table of family.cc.
#pragma once

#include "model/huggingface/family.h"

namespace stoa::model::huggingface {

extern const Family kGptOss;
extern const Family kGpt2, kLlama, kMistral, kQwen2, kQwen3, kMixtral, kQwen3Moe, kDeepseekV3, kGptNeox,
    kPhi3, kQwen3Next, kQwen35, kQwen35Moe, kQwen35Text, kQwen35MoeText, kOlmo2, kGemma2, kGemma3Text, kBloom,
    kGranite, kGraniteMoe, kMinicpm, kSmollm3, kCohere, kCohere2, kPhi, kOpt, kMpt, kHunyuanDense, kQwen2Moe,
    kOlmo, kGptj, kGptNeo, kDistilbert, kMpnet, kElectra, kNomicBert, kModernBert, kBert, kRoberta, kT5, kMt5,
    kUmt5;
extern const Family kArcee, kCamembert, kDeepseekV2, kDots1, kErnie45, kExaone4, kFalcon, kGemma, kGemma3,
    kGlm, kGlm4, kGlm4Moe, kGptBigcode, kHelium, kInternlm2, kKimiK2, kMegatronBert, kMinimaxM2, kMinistral,
    kNemotron, kOlmo3, kOlmoe, kSeedOss, kStablelm, kStarcoder2, kXlmRoberta;
// Stoa's own configuration, for combinations of options that no family has.
extern const Family kStoaGpt;

}  // namespace stoa::model::huggingface
