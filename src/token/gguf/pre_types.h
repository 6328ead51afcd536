// tokenizer.ggml.pre: how a byte-level BPE of a GGUF file cuts texts into words, by the name that llama.cpp
// gave the tokenizer which the file was made from.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace stoa::token {

struct PreType {
  nlohmann::ordered_json pre_tokenizer;  // as in a tokenizer.json
  bool nfc = false;                      // its normalizer
  bool ignore_merges = false;
  bool add_bos = false;  // where the file does not say
};

// DataError: a name that is not known: ids would be silently wrong. Says which are.
PreType pre_type(std::string_view name);

// The name of a pre-tokenizer with the form `form` of its JSON, "" where llama.cpp has none.
std::string_view name_of_pre_type(const nlohmann::ordered_json& pre_tokenizer, bool nfc, bool ignore_merges,
                                  nlohmann::ordered_json (*form)(const nlohmann::ordered_json&));

}  // namespace stoa::token
