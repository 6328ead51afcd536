// Multimodal models: their language model is in `text_config`, next to the parts that process images.
#pragma once

#include <string_view>

#include "model/huggingface/family.h"
#include "model/huggingface/name_map.h"

namespace stoa::model::huggingface {

// Reads `text_config` as family `type` reads a config.json, and ignores the keys for images.
void read_text_part(JsonKeys& keys, ModelConfig& config, std::string_view type,
                    void (*read)(JsonKeys&, ModelConfig&));
// Converts the names of the language model alone to those in files that also hold the image parts.
NameMap names_of_text_part(NameMap names);
// For Family::refused: only the language model is held, so it is written as a model of that family.
bool always_refused(const ModelConfig&);

}  // namespace stoa::model::huggingface
