// What GGUF files mean: each architecture of llama.cpp is a family of its own, whose "config.json" is the
// file's metadata (metadata.h) and whose names are those of the file's tensors. Each in a file of its own
// under architectures/, listed in a table in architecture.cc.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "model/huggingface/config_json.h"

namespace stoa::model::gguf {

using huggingface::Family;
using Json = nlohmann::ordered_json;

std::span<const Family* const> architectures();
// ConfigError: not known; names those that are.
const Family& architecture(std::string_view name);

// `metadata`: see metadata.h. ConfigError: a key or value that this architecture does not have here.
ModelConfig read_architecture(const Family& family, const nlohmann::json& metadata,
                              const std::string& source);
Json write_architecture(const Family& family, const ModelSpec& spec);

// The first architecture whose file can express the configuration. ConfigError: none; says what the nearest
// lacks.
const Family& choose_architecture(const ModelSpec& spec);

}  // namespace stoa::model::gguf
