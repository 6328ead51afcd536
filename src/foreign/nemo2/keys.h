// What becomes of a key of a recipe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/node.h"

namespace stoa::foreign {

// Which class of the recipe a key belongs to; kSettings: those of Megatron-Bridge that are Megatron-LM's
// arguments.
enum class Nemo2Section {
  kModel,
  kStrategy,
  kData,
  kPrecision,
  kOptimizer,
  kSchedule,
  kTrainer,
  kTokenizer,
  kSettings
};

enum class Nemo2Use {
  kArgument,  // its value is that of an argument of Megatron-LM: text
  kFlag,      // true is an argument
  kNotFlag,   // false is an argument
  kKey,       // a key of Stoa has its value
  kCode,      // read by code
  kNone,      // has no meaning in Stoa: text says why
  kRefused,   // would change numbers, memory or time: text says why; `usual` asks for nothing
};

struct Nemo2Key {
  Nemo2Section section;
  std::string_view name;
  Nemo2Use use;
  std::string_view text;
  std::string_view usual = {};  // values, separated by spaces
};

// A key of the section itself, or else the argument of Megatron-LM that has its name. `found.name` is empty
// where there is none.
Nemo2Key find_nemo2_key(Nemo2Section section, std::string_view name);
std::vector<std::string> nemo2_key_names(Nemo2Section section);

// Fields of a model's class, where they are not those of GPTConfig.
struct Nemo2Class {
  std::string_view name;
  std::string_view fields;  // "num_layers=32 hidden_size=4096"
};
std::span<const Nemo2Class> nemo2_class_fields();
const Nemo2Class* find_nemo2_class(std::string_view name);
std::vector<std::string> nemo2_class_names();
// Why a class cannot be read, or "".
std::string_view refused_nemo2_class(std::string_view name);
// The vocabulary that was published with a class, 0 where there is none.
std::int64_t published_vocabulary(std::string_view class_name);

// Sets "a.b" of a recipe to a value in YAML.
void set_nemo2_value(config::Node& root, std::string_view path, std::string_view text);

}  // namespace stoa::foreign
