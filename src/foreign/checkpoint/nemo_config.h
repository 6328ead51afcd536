// Models of Stoa in the words of NeMo: NeMo 2's classes, as context/ holds them, and NeMo 1's
// model_config.yaml.
#pragma once

#include <string>

#include "model/model_spec.h"

namespace stoa::foreign {

// The folder below context/ that holds the tokenizer's files.
inline constexpr const char* kNemoTokenizer = "nemo_tokenizer";

struct NemoContext {
  std::string model_yaml;  // for people, and for Stoa
  std::string io_json;     // what nemo.lightning.io.load_context() builds the model from (Fiddle's format)
};
// ConfigError: NeMo 2 has no such model; the message says what would be lost. `tokenizer`: its files are in
// kNemoTokenizer.
NemoContext nemo2_context(const model::ModelSpec& spec, bool tokenizer);

// Where NeMo 1 finds the tokenizer: files of the archive, by their names in it.
struct Nemo1Tokenizer {
  std::string sentencepiece;       // "tokenizer.model"; or
  std::string vocabulary, merges;  // those of GPT-2
};
// ConfigError likewise.
std::string nemo1_config(const model::ModelSpec& spec, const Nemo1Tokenizer& tokenizer);

}  // namespace stoa::foreign
