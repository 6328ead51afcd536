#include "model/gguf/architecture.h"

#include <fmt/ranges.h>

#include <array>

#include "base/nearest.h"
#include "model/gguf/architectures/architectures.h"
#include "model/huggingface/json_keys.h"
#include "model/same_function.h"

namespace stoa::model::gguf {
namespace {

// A configuration that several can say is written as the first of them.
constexpr std::array kArchitectures{&kLlama,   &kQwen2,      &kQwen3, &kQwen3Moe, &kGemma,
                                    &kGemma2,  &kGemma3,     &kPhi3,  &kPhi2,     &kGpt2,
                                    &kGptNeox, &kStarcoder2, &kOlmo2, &kGranite,  &kStablelm};

}  // namespace

std::span<const Family* const> architectures() { return kArchitectures; }

const Family& architecture(std::string_view name) {
  std::vector<std::string> known;
  for (const Family* family : kArchitectures) {
    if (family->type == name) return *family;
    known.emplace_back(family->type);
  }
  fail<ConfigError>("architecture '{}' of GGUF files is not supported{}; supported: {}", name,
                    did_you_mean(name, known), fmt::join(known, ", "));
}

ModelConfig read_architecture(const Family& family, const nlohmann::json& metadata,
                              const std::string& source) {
  huggingface::JsonKeys keys(metadata, std::string(family.type) + ".", source);
  ModelConfig config;
  try {
    family.read(keys, config);
    keys.finish(family.type);
    config.encoder_seq_length = config.max_positions();
    validate(config);
  } catch (const ConfigError& error) {
    const std::string_view what = error.what();
    if (what.starts_with(source)) throw;
    fail<ConfigError>("{}: {}", source, what);
  }
  return config;
}

Json write_architecture(const Family& family, const ModelSpec& spec) {
  Json json;
  family.write(spec, json);
  return json;
}

const Family& choose_architecture(const ModelSpec& spec) {
  std::string nearest;
  std::size_t fewest = 0;
  for (const Family* family : kArchitectures) {
    if (family->refused && family->refused(spec.config)) continue;
    try {
      const ModelConfig back = read_architecture(*family, write_architecture(*family, spec), "metadata");
      const auto differences = function_differences(back, spec.config, Purpose::kResume);
      if (differences.empty()) return *family;
      if (!nearest.empty() && differences.size() >= fewest) continue;
      fewest = differences.size();
      nearest = std::string(family->type) + " has a different";
      for (const auto& d : differences) nearest += fmt::format(" {} ({}, here {});", d.path, d.from, d.to);
      nearest.pop_back();
    } catch (const ConfigError&) {
    }
  }
  fail<ConfigError>("no architecture of GGUF files can say this model: the nearest, {}", nearest);
}

}  // namespace stoa::model::gguf
