// NeMo's model classes by name (their fields: class_data.cc), and the published vocabularies of the models,
// which NeMo takes from the tokenizer. The corpus of tests/fixtures/nemo2, which tests/oracle/nemo2_facts.py
// makes by running the recipes, tests them.
#include <algorithm>

#include "foreign/nemo2/keys.h"

namespace stoa::foreign {
namespace {

struct ByPrefix {
  std::string_view prefix;
  std::int64_t ids;
};
// The first that fits counts.
constexpr ByPrefix kClassVocabularies[] = {
    {"BaseMamba", 50277},     {"NVIDIAMamba", 256000},
    {"GPTConfig", 50257},     {"Llama2", 32000},
    {"CodeLlama", 32016},     {"Llama3", 128256},
    {"MistralConfig", 32000}, {"MistralNeMoConfig123B", 32768},
    {"MistralNeMo", 131072},  {"Mixtral", 32000},
    {"CodeGemma", 256000},    {"Gemma", 256000},
    {"Nemotron", 256000},     {"Starcoder", 49152},
    {"ChatGLM", 65024},       {"Baichuan2", 125696},
    {"DeepSeekV2", 102400},   {"DeepSeekV3", 129280},
    {"MegatronBert", 30522},  {"HuggingFaceBert", 30522},
    {"T5Config", 30522},
};

struct Refused {
  std::string_view part, reason;
};
constexpr Refused kRefused[] = {
    {"Hyena", "long convolutions (Hyena), which Stoa does not have"},
    {"Embedding", "an encoder made of a decoder, trained on pairs of texts"},
    {"Reranker", "an encoder made of a decoder, trained on pairs of texts"},
    {"NemotronUltra253B", "layers of different shapes"},
    {"NemotronSuper49B", "layers of different shapes"},
};

}  // namespace

const Nemo2Class* find_nemo2_class(std::string_view name) {
  const auto classes = nemo2_class_fields();
  const auto it = std::ranges::find(classes, name, &Nemo2Class::name);
  return it == classes.end() ? nullptr : &*it;
}

std::vector<std::string> nemo2_class_names() {
  std::vector<std::string> names;
  for (const Nemo2Class& c : nemo2_class_fields()) names.emplace_back(c.name);
  return names;
}

std::string_view refused_nemo2_class(std::string_view name) {
  for (const Refused& r : kRefused)
    if (name.find(r.part) != std::string_view::npos) return r.reason;
  return {};
}

std::int64_t published_vocabulary(std::string_view class_name) {
  for (const ByPrefix& v : kClassVocabularies)
    if (class_name.starts_with(v.prefix)) return v.ids;
  return 0;
}

}  // namespace stoa::foreign
