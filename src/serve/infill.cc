// The prompt of filling in the middle, with the special tokens that a model was trained with.
#include "serve/infill.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stoa::serve {
namespace {

// Names of the tokens in families of models; of files: what stands before the name of each.
struct InfillNames {
  const char *prefix, *suffix, *middle, *file;
};
constexpr std::array kInfillNames{
    InfillNames{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>"},  // Qwen, CodeGemma
    InfillNames{"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>"},          // StarCoder, Granite
    InfillNames{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", nullptr},         // DeepSeek
    InfillNames{"▁<PRE>", "▁<SUF>", "▁<MID>", nullptr},                                 // Code Llama
    InfillNames{"<PRE>", "<SUF>", "<MID>", nullptr},
    InfillNames{"[PREFIX]", "[SUFFIX]", nullptr, nullptr}};  // Codestral: the suffix first, no third token

}  // namespace

std::vector<std::int32_t> infill_prompt(const ServedModel& model, const InfillText& text, const char* field) {
  check(
      !model.reads_sources(), field,
      "'{}': the model '{}' is an encoder-decoder: mark in the prompt of /v1/completions what is missing, as "
      "in its training (T5: <extra_id_0>)",
      field, model.name());
  const token::Tokenizer& tokenizer = model.tokenizer();
  const auto id_of = [&](const char* name) {
    return name == nullptr ? std::nullopt : tokenizer.token_to_id(name);
  };
  for (const InfillNames& names : kInfillNames) {
    const auto prefix = id_of(names.prefix), suffix = id_of(names.suffix), middle = id_of(names.middle),
               file = id_of(names.file);
    if (!prefix || !suffix || (names.middle != nullptr && !middle)) continue;
    std::vector<std::int32_t> out;
    if (const auto bos = tokenizer.bos_id();
        bos && tokenizer.encode("a", {.add_special = true}).front() == *bos)
      out.push_back(*bos);
    const auto add = [&](std::string_view part) {
      const auto ids = tokenizer.encode(part, {.plain = true, .add_special = false});
      out.insert(out.end(), ids.begin(), ids.end());
    };
    check(text.files.empty() || file.has_value(), "input_extra",
          "'input_extra': the model has no token that separates files");
    for (const auto& [name, content] : text.files) {
      out.push_back(*file);
      add(name + "\n" + content);
    }
    if (!middle) {
      out.push_back(*suffix);
      add(text.suffix);
      out.push_back(*prefix);
      add(text.prefix);
      return out;
    }
    out.push_back(*prefix);
    add(text.prefix);
    out.push_back(*suffix);
    add(text.suffix);
    out.push_back(*middle);
    return out;
  }
  reject(field, "'{}': the model '{}' has no tokens for filling in the middle", field, model.name());
}

}  // namespace stoa::serve
