// Hugging Face model families that Stoa reads and writes: one file each under families/, one table in
// family.cc.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "model/gpt.h"
#include "model/huggingface/name_map.h"

namespace stoa::model::huggingface {

class JsonKeys;
using Json = nlohmann::ordered_json;

// What a family's config.json and tensors mean. Which configurations are of a family is not said apart: those
// that its file can say, so that they come back as the same function (choose_family).
struct Family {
  std::string_view type;          // model_type: "gpt2"
  std::string_view architecture;  // "GPT2LMHeadModel"
  // The keys of config.json but those of every family (read_config.cc). ConfigError: a value whose maths Stoa
  // does not have.
  void (*read)(JsonKeys& keys, ModelConfig& config);
  // Both spellings, of transformers 4.x and 5.x. A configuration that is not of this family is written as far
  // as the keys go.
  void (*write)(const Gpt& gpt, Json& json);
  NameMap (*names)();
  // Another family of the same model_type, where a file of this one asks for it: its tensors are arranged
  // in another way. None: there is but this one.
  const Family* (*variant)(const nlohmann::json& config) = nullptr;
  // Whether transformers refuses to make the model of what `write` gives: then another family writes it.
  bool (*refused)(const ModelConfig& config) = nullptr;
  // The quant_method of config.json whose tensors are read beside floating-point ones; "": none.
  std::string_view quantised = {};
};

std::span<const Family* const> families();

// By model_type, and what the rest of config.json says of its variants. ConfigError: the type is not
// supported; another is suggested only where it is a misspelling.
const Family& family_from_config(std::string_view type, const nlohmann::json& config);
// A combination of options that none of the families has, under names of our own; transformers cannot load
// it.
const Family& stoa_family();

// The first family whose file can say the configuration. `why_not`: for stoa_family(), what the nearest
// family does not have.
const Family& choose_family(const ModelConfig& config, std::string* why_not = nullptr);
// The family called `type`. ConfigError: there is none, or its file cannot say the configuration (and what is
// lost).
const Family& family_for(std::string_view type, const ModelConfig& config);

}  // namespace stoa::model::huggingface
