// The architectures, a file for each group of kin: what stands in the table of architecture.cc.
#pragma once

#include "model/gguf/architecture.h"

namespace stoa::model::gguf {

extern const Family kLlama;                     // llama.cc
extern const Family kQwen2, kQwen3, kQwen3Moe;  // qwen.cc
extern const Family kGemma, kGemma2, kGemma3;   // gemma.cc
extern const Family kPhi2, kPhi3;               // phi.cc
extern const Family kGpt2, kGptNeox;            // gpt.cc
extern const Family kStarcoder2, kStablelm;     // layer_norm.cc
extern const Family kOlmo2;                     // olmo2.cc
extern const Family kGranite;                   // granite.cc

}  // namespace stoa::model::gguf
