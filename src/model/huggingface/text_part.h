// Models that see images hold their language model in `text_config`, beside the parts that see.
#pragma once

#include <string_view>

#include "model/huggingface/family.h"
#include "model/huggingface/name_map.h"

namespace stoa::model::huggingface {

// Reads `text_config` as family `type` reads a file of its own, and passes over what is of images.
void read_text_part(JsonKeys& keys, ModelConfig& config, std::string_view type,
                    void (*read)(JsonKeys&, ModelConfig&));
// `names` of the language model alone -> of files that hold the parts that see, too.
NameMap names_of_text_part(NameMap names);
// Of Family::refused: what is held of such a model sees no images, and is written as its language model.
bool always_refused(const ModelConfig&);

}  // namespace stoa::model::huggingface
