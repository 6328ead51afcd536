// The Hugging Face model families that Stoa reads and writes: each in a file of its own under families/,
// listed in a table in family.cc.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "model/huggingface/name_map.h"
#include "model/model_spec.h"

namespace stoa::model::huggingface {

class JsonKeys;
using Json = nlohmann::ordered_json;

// How to read and write a family's config.json and tensors. There is no separate test of which configurations
// belong to it: those that survive writing and reading its file unchanged (choose_family).
struct Family {
  std::string_view type;          // model_type: "gpt2"
  std::string_view architecture;  // "GPT2LMHeadModel"
  // Reads the keys of config.json that not all families share (those: read_config.cc). ConfigError: a value
  // that Stoa does not support.
  void (*read)(JsonKeys& keys, ModelConfig& config);
  // Writes the spellings of transformers 4.x and 5.x. For a configuration that is not of this family, as far
  // as its keys can express it.
  void (*write)(const ModelSpec& spec, Json& json);
  NameMap (*names)();
  // A variant of the same model_type, selected by other keys of the file, whose tensors are arranged
  // differently. Null: the type has no variants.
  const Family* (*variant)(const nlohmann::json& config) = nullptr;
  // Whether transformers rejects the configuration that `write` writes: then another family writes it.
  bool (*refused)(const ModelConfig& config) = nullptr;
  // The quant_method of config.json whose tensors can be read, besides floating-point ones; "": none.
  std::string_view quantised = {};
};

std::span<const Family* const> families();

// By model_type and, for its variants, other keys of config.json. ConfigError: the type is not supported; a
// similar name is suggested only for a misspelling.
const Family& family_from_config(std::string_view type, const nlohmann::json& config);
// Combinations of options that no other family can express, with key names of Stoa's own; transformers cannot
// load them.
const Family& stoa_family();

// The first family whose file can express the configuration. `why_not`: if that is stoa_family(), what the
// nearest family lacks.
const Family& choose_family(const ModelConfig& config, std::string* why_not = nullptr);
// The family called `type`. ConfigError: there is none, or its file cannot express the configuration; the
// message says what would be lost.
const Family& family_for(std::string_view type, const ModelConfig& config);

}  // namespace stoa::model::huggingface
