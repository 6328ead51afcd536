// The model that an adapter belongs to, as the adapter needs it.
#pragma once

#include <optional>

#include "infer/model_files.h"

namespace stoa::infer {

// The files of the model in `base`, with the head that an adapter gives it: adapters of labelled tasks
// (PEFT's SEQ_CLS and TOKEN_CLS) hold a head, and may belong to a language model. `adapter` may be none.
// DataError: the adapter holds no such head. Also grow_for().
ModelFiles open_base(const fs::path& base, const std::optional<fs::path>& adapter);

// Tokens that an adapter has rows of and the model has not, as where a chat template added them: the model
// with rows for them, which those of the adapter replace. ConfigError: see read_adapter_config().
void grow_for(ModelFiles& base, const fs::path& adapter);

}  // namespace stoa::infer
