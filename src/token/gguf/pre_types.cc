#include "token/gguf/pre_types.h"

#include <array>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"
#include "token/split.h"

namespace stoa::token {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson byte_level(bool regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", regex}};
}
OrderedJson split(std::string_view regex, const char* behavior = "Isolated") {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", behavior}, {"invert", false}};
}
OrderedJson sequence(std::vector<OrderedJson> parts) {
  return {{"type", "Sequence"}, {"pretokenizers", parts}};
}
// Cut by a regular expression, then written in the byte alphabet.
OrderedJson cut_by(std::string_view regex) { return sequence({split(regex), byte_level(false)}); }

constexpr std::string_view kDeepseekV3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct Row {
  std::string_view name;
  PreType type;
};

// Every kind of cutting under the name with which it is written first.
std::vector<Row> rows() {
  const OrderedJson gpt2 = byte_level(true);
  const OrderedJson digits_first = sequence({{{"type", "Digits"}, {"individual_digits", true}}, gpt2});
  const OrderedJson llama3 = cut_by(regex(SplitPattern::kLlama3)),
                    qwen2 = cut_by(regex(SplitPattern::kQwen2));
  const OrderedJson falcon = sequence({{{"type", "Punctuation"}, {"behavior", "Contiguous"}},
                                       gpt2,
                                       {{"type", "Digits"}, {"individual_digits", false}},
                                       split("[0-9][0-9][0-9]")});
  const OrderedJson deepseek_v3 = sequence(
      {split("\\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(kDeepseekV3), byte_level(false)});
  return {
      {"gpt-2", {gpt2}},
      {"default", {gpt2}},
      {"phi-2", {gpt2}},
      {"olmo", {gpt2}},
      {"mpt", {gpt2}},
      {"jais", {gpt2}},
      {"gigachat", {gpt2}},
      {"smollm", {digits_first}},
      {"starcoder", {digits_first}},
      {"refact", {digits_first}},
      {"command-r", {digits_first}},
      {"codeshell", {digits_first}},
      {"exaone", {digits_first}},
      {"minerva-7b", {digits_first}},
      {"llama-bpe", {llama3, false, true, true}},
      {"llama3", {llama3, false, true, true}},
      {"llama-v3", {llama3, false, true, true}},
      {"falcon3", {llama3, false, true, true}},
      {"dbrx", {llama3}},
      {"smaug-bpe", {llama3}},
      {"qwen2", {qwen2, true}},
      {"deepseek-r1-qwen", {qwen2, true}},
      {"stablelm2", {qwen2, true}},
      {"hunyuan", {qwen2, true}},
      {"falcon", {falcon}},
      {"deepseek-v3", {deepseek_v3}},
      {"tekken", {cut_by(kTekken), false, true, true}},
      {"gpt-4o", {cut_by(kGpt4o)}},
      {"bloom", {cut_by(regex(SplitPattern::kBloom))}},
  };
}

}  // namespace

PreType pre_type(std::string_view name) {
  std::vector<std::string> known;
  for (Row& row : rows()) {
    if (row.name == name) return std::move(row.type);
    known.emplace_back(row.name);
  }
  std::string list;
  for (const auto& each : known) list += (list.empty() ? "" : ", ") + each;
  fail<DataError>(
      "tokenizer.ggml.pre '{}' is not known{}, and another way to cut texts would give other ids; known: {}",
      name, did_you_mean(name, known), list);
}

std::string_view name_of_pre_type(const OrderedJson& pre_tokenizer, bool nfc, bool ignore_merges,
                                  OrderedJson (*form)(const OrderedJson&)) {
  for (const Row& row : rows())
    if (form(row.type.pre_tokenizer) == pre_tokenizer && row.type.nfc == nfc &&
        row.type.ignore_merges == ignore_merges)
      return row.name;
  return "";
}

}  // namespace stoa::token
