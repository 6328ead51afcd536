// The model that an adapter belongs to, as the adapter needs it.
#pragma once

#include <optional>

#include "infer/model_files.h"

namespace stoa::infer {

// The files of the model in `base`, with the head that an adapter gives it: adapters of labelled tasks
// (PEFT's SEQ_CLS and TOKEN_CLS) hold a head, and may belong to a language model. `adapter` may be none.
// DataError: the adapter holds no such head.
ModelFiles open_base(const fs::path& base, const std::optional<fs::path>& adapter);

}  // namespace stoa::infer
