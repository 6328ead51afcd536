// Checkpoints of NeMo: .nemo archives of NeMo 1 (and folders unpacked from them), and NeMo 2's folders with
// context/ and weights/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "foreign/checkpoint/foreign_checkpoint.h"
#include "model/config.h"

namespace stoa::foreign {

ForeignCheckpoint open_nemo(const fs::path& path, const ForeignOptions& options);

// The model of a model_config.yaml, which is what a training file of NeMo 1 has under `model`, and that of a
// context/model.yaml. `vocabulary`: rows, in place of what the text says. DataError: Stoa has no such model.
model::ModelConfig model_of_nemo1(const std::string& text, const std::string& source,
                                  std::optional<std::int64_t> vocabulary);
model::ModelConfig model_of_nemo2(const std::string& text, const std::string& source,
                                  std::optional<std::int64_t> vocabulary);

}  // namespace stoa::foreign
