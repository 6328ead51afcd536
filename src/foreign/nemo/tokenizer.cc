// A tokenizer that is only on the cluster does not stop a plan: what the plan needs is its size.
#include <fmt/format.h>

#include <array>
#include <cctype>
#include <optional>

#include "base/file.h"
#include "config/value.h"
#include "foreign/nemo/translation.h"

namespace stoa::foreign {
namespace {

struct KnownTokenizer {
  std::string_view part;  // of the name or path, lower case; the first that is found counts
  std::int64_t ids;
};
// Sizes as the tokenizers' publishers give them.
constexpr KnownTokenizer kTokenizers[] = {
    {"gpt2bpetokenizer", 50257},
    {"bertwordpiecelowercase", 30522},
    {"bertwordpiececase", 28996},
    {"llama-3", 128256},
    {"llama-2", 32000},
    {"llama_tokenizer", 32000},
    {"mistral-large", 32768},
    {"mistral-nemo", 131072},
    {"mistral-7b-v0.1", 32000},
    {"mixtral-8x7b", 32000},
    {"mixtral-8x22b-v0.1", 32000},
    {"falcon-7b", 65024},
    {"starcoder", 49152},
    {"gemma", 256000},
    {"mt5_tokenizer", 250100},
    {"baichuan2", 125696},
    {"nemotron_2_256", 256000},
};

bool is_here(const config::Node* path, bool directory) {
  if (!path) return false;
  std::error_code ignored;
  const fs::path place = path->scalar;
  return directory ? fs::is_directory(place, ignored) : fs::is_regular_file(place, ignored);
}

}  // namespace

std::optional<std::int64_t> known_vocabulary(std::string_view tokenizer) {
  std::string lower(tokenizer);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const KnownTokenizer& known : kTokenizers)
    if (lower.find(known.part) != std::string::npos) return known.ids;
  return {};
}

void NemoTranslation::tokenizer() {
  if (purpose_ == Purpose::kTrain || !root_.find_path("model.tokenizer")) return;
  const std::string library = text("model.tokenizer.library");
  const bool here = library == "megatron"        ? is_here(find("model.tokenizer.vocab_file"), false)
                    : library == "sentencepiece" ? is_here(find("model.tokenizer.model"), false)
                                                 : is_here(find("model.tokenizer.type"), true);
  if (here) return;
  const config::Node* type = find("model.tokenizer.type");
  const config::Node* model = find("model.tokenizer.model");
  const std::string name = type ? type->scalar : model ? model->scalar : opened_tokenizer;
  const std::int64_t added = number("model.tokenizer.num_sentinel_tokens", 0);
  if (const config::Node* given = find("model.vocab_size")) {
    notes.push_back(fmt::format("the tokenizer ({}) is not here: model.vocab_size {} is planned",
                                name.empty() ? library : name, given->scalar));
  } else if (const auto ids = known_vocabulary(name)) {
    put("model.vocab_size", std::to_string(*ids + added), "model.tokenizer");
    notes.push_back(fmt::format("the tokenizer ({}) is not here: its {} ids{} are planned (model.vocab_size)",
                                name, *ids, added > 0 ? fmt::format(" and {} sentinels", added) : ""));
  } else {
    notes.push_back(
        fmt::format("the tokenizer ({}) is not here, and its size is not known: give model.vocab_size=N, or "
                    "50257 ids are planned",
                    name.empty() ? library : name));
  }
  erase("model.tokenizer");
}

}  // namespace stoa::foreign
