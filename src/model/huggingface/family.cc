#include "model/huggingface/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.h"
#include "model/huggingface/config_json.h"
#include "model/huggingface/families/families.h"
#include "model/huggingface/task_keys.h"
#include "model/same_function.h"

namespace stoa::model::huggingface {
namespace {

// A configuration that several families can say is written as the first of them.
constexpr std::array kFamilies{
    &kGpt2,      &kLlama,      &kMistral,       &kQwen2,      &kQwen3,        &kMixtral,      &kQwen3Moe,
    &kQwen3Next, &kQwen35Text, &kQwen35MoeText, &kDeepseekV3, &kGptOss,       &kGptNeox,      &kPhi3,
    &kOlmo2,     &kGemma2,     &kGemma3Text,    &kBloom,      &kGranite,      &kGraniteMoe,   &kSmollm3,
    &kCohere,    &kCohere2,    &kPhi,           &kOpt,        &kMpt,          &kHunyuanDense, &kQwen2Moe,
    &kOlmo,      &kGptj,       &kGptNeo,        &kBert,       &kRoberta,      &kDistilbert,   &kMpnet,
    &kElectra,   &kNomicBert,  &kModernBert,    &kT5,         &kMt5,          &kUmt5,         &kMinistral,
    &kOlmo3,     &kExaone4,    &kOlmoe,         &kGemma,      &kStarcoder2,   &kStablelm,     &kNemotron,
    &kArcee,     &kSeedOss,    &kGlm,           &kGlm4,       &kGlm4Moe,      &kDots1,        &kErnie45,
    &kHelium,    &kMinimaxM2,  &kDeepseekV2,    &kGptBigcode, &kFalcon,       &kInternlm2,    &kKimiK2,
    &kGemma3,    &kQwen35,     &kQwen35Moe,     &kXlmRoberta, &kMegatronBert, &kCamembert,    &kMinicpm,
    &kStoaGpt};

// " (did you mean 'x'?)" where `type` is a known one but for case, separators and
// doubled letters. A family's neighbours by
// spelling compute something else: 'opt' is no 'gpt2', 'qwen4' no 'qwen3', and an edit of the file would load
// noise.
std::string misspelling(std::string_view type, const std::vector<std::string>& known) {
  const auto letters = [](std::string_view name) {
    std::string out;
    for (const char c : name)
      if (std::isalnum(static_cast<unsigned char>(c)))
        out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  };
  for (const std::string& name : known)
    if (letters(type) == letters(name)) return fmt::format(" (did you mean '{}'?)", name);
  return "";
}

[[noreturn]] void unknown(std::string_view type, const char* what) {
  std::vector<std::string> known;
  for (const Family* family : kFamilies) known.emplace_back(family->type);
  std::sort(known.begin(), known.end());
  fail<ConfigError>("{} '{}' is not a family that Stoa can load{}; it can load: {} (docs/families.md)", what,
                    type, misspelling(type, known), fmt::join(known, ", "));
}

ModelSpec vocabulary_filled_in(const ModelConfig& config) {
  ModelSpec spec{config, config.vocab_size.value_or(kVocabWithoutTokenizer), 0};
  spec.config.vocab_size = spec.vocabulary;
  return spec;
}

// " num_layers (3, here 4); ..."
std::string listed(const std::vector<config::Difference>& differences) {
  std::string out;
  for (const auto& d : differences) out += fmt::format(" {} ({}, here {});", d.path, d.from, d.to);
  if (!out.empty()) out.pop_back();
  return out;
}

// What the configuration loses on its way through the family's file; none: the file does not read back.
std::optional<std::vector<config::Difference>> lost(const Family& family, const ModelSpec& spec) {
  if (spec.config.kind == ModelKind::kGpt && !has_head(family, spec.config.task.type)) return std::nullopt;
  const std::string text = write_config(spec, family, DType::kF32, {});
  try {
    return function_differences(read_config(text).config, spec.config, Purpose::kResume);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

}  // namespace

std::span<const Family* const> families() { return kFamilies; }
const Family& stoa_family() { return kStoaGpt; }

const Family& family_from_config(std::string_view type, const nlohmann::json& config) {
  for (const Family* family : kFamilies) {
    if (family->type != type) continue;
    const Family* variant = family->variant ? family->variant(config) : nullptr;
    return variant ? *variant : *family;
  }
  unknown(type, "config.json: model_type");
}

const Family& family_for(std::string_view type, const ModelConfig& config) {
  for (const Family* family : kFamilies) {
    if (family->type != type) continue;
    const ModelSpec spec = vocabulary_filled_in(config);
    const auto differences = lost(*family, spec);
    require<ConfigError>(differences && !(family->refused && family->refused(config)),
                         "a model of this kind cannot be written as {}", type);
    require<ConfigError>(differences->empty(), "written as {}, the model would have a different{}", type,
                         listed(*differences));
    return *family;
  }
  unknown(type, "family");
}

const Family& choose_family(const ModelConfig& config, std::string* why_not) {
  const ModelSpec spec = vocabulary_filled_in(config);
  std::vector<config::Difference> fewest;
  const Family* nearest = nullptr;
  for (const Family* family : kFamilies) {
    if (family == &kStoaGpt) continue;
    if (family->refused && family->refused(config)) continue;
    auto differences = lost(*family, spec);
    if (!differences || (nearest && differences->size() >= fewest.size())) continue;
    if (differences->empty()) return *family;
    nearest = family;
    fewest = *std::move(differences);
  }
  if (why_not && nearest)
    *why_not = fmt::format("the nearest family, {}, has a different{}", nearest->type, listed(fewest));
  return kStoaGpt;
}

}  // namespace stoa::model::huggingface
