#include "model/huggingface/family.h"

#include <fmt/format.h>

#include <array>

#include "base/error.h"
#include "base/nearest.h"
#include "model/huggingface/config_json.h"
#include "model/huggingface/families/families.h"
#include "model/same_function.h"

namespace stoa::model::huggingface {
namespace {

// A configuration that several families can say is written as the first of them.
constexpr std::array kFamilies{
    &kGpt2,       &kLlama,         &kMistral,    &kQwen2,   &kQwen3,   &kMixtral, &kQwen3Moe, &kQwen3Next,
    &kQwen35Text, &kQwen35MoeText, &kDeepseekV3, &kGptOss,  &kGptNeox, &kPhi3,    &kOlmo2,    &kGemma2,
    &kGemma3Text, &kBloom,         &kBert,       &kRoberta, &kT5,      &kMt5,     &kStoaGpt};

// What the configuration loses on its way through the family's file; none: the file does not read back.
std::optional<std::vector<config::Difference>> lost(const Family& family, const Gpt& gpt) {
  const std::string text = write_config(gpt, family, DType::kF32, {});
  try {
    return function_differences(read_config(text).config, gpt.config, Purpose::kResume);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

}  // namespace

std::span<const Family* const> families() { return kFamilies; }
const Family& stoa_family() { return kStoaGpt; }

const Family& family_from_model_type(std::string_view type) {
  std::vector<std::string> known;
  for (const Family* family : kFamilies) {
    if (family->type == type) return *family;
    known.emplace_back(family->type);
  }
  fail<ConfigError>("config.json: model_type '{}' is not known{}; known: {}", type, did_you_mean(type, known),
                    fmt::join(known, ", "));
}

const Family& choose_family(const ModelConfig& config, std::string* why_not) {
  Gpt gpt{config, config.vocab_size.value_or(kVocabWithoutTokenizer), 0};
  gpt.config.vocab_size = gpt.vocabulary;
  std::vector<config::Difference> fewest;
  const Family* nearest = nullptr;
  for (const Family* family : kFamilies) {
    if (family == &kStoaGpt) continue;
    auto differences = lost(*family, gpt);
    if (!differences || (nearest && differences->size() >= fewest.size())) continue;
    if (differences->empty()) return *family;
    nearest = family;
    fewest = *std::move(differences);
  }
  if (why_not && nearest) {
    *why_not = fmt::format("the nearest family, {}, has another", nearest->type);
    for (const auto& d : fewest) *why_not += fmt::format(" {} ({}, here {});", d.path, d.from, d.to);
    why_not->pop_back();
  }
  return kStoaGpt;
}

}  // namespace stoa::model::huggingface
