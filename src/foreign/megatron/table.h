// Every argument of Megatron-LM (core 0.4 to main of August 2026, versions 1.0 to 2.6), of Megatron-DeepSpeed
// and of BigScience's copy of it: how many values it takes, and what becomes of it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stoa::foreign {

enum class Use {
  kKey,    // a key of Stoa has its value
  kOther,  // honoured by code: text says what becomes of it
  kNone,   // does not apply to Stoa: text says why
  // Would change the numbers of a training, and neither memory nor time, and is not honoured: a plan says so,
  // a run is refused. text says why.
  kNotTrained,
  kRefused,  // would change numbers, memory or time, and is not honoured: text says why
};

// argparse's nargs: none, one, None or one ("?"), any number, one at least.
enum class Arity { kFlag, kOne, kOptional, kAny, kSome };

struct MegatronArgument {
  std::string_view name;  // without its dashes
  Arity arity;
  Use use;
  std::string_view text;          // kKey: "model.num_layers", of a flag "model.activation=swiglu"
  std::string_view neutral = {};  // refused: values that ask for nothing, separated by spaces
};

std::span<const MegatronArgument> megatron_model_arguments();
std::span<const MegatronArgument> megatron_moe_arguments();
std::span<const MegatronArgument> megatron_parallel_arguments();
std::span<const MegatronArgument> megatron_memory_arguments();
std::span<const MegatronArgument> megatron_training_arguments();
std::span<const MegatronArgument> megatron_files_arguments();
std::span<const MegatronArgument> megatron_logging_arguments();
std::span<const MegatronArgument> megatron_others_arguments();

struct MegatronTheme {
  std::string_view title;
  std::span<const MegatronArgument> arguments;
};
const std::vector<MegatronTheme>& megatron_themes();

const MegatronArgument* find_megatron_argument(std::string_view name);  // null: unknown
std::vector<std::string> megatron_argument_names();

// The table as a page of the documentation.
std::string megatron_table_page();

}  // namespace stoa::foreign
