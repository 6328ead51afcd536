#include "infer/sentence_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/file.h"

namespace stoa::infer {
namespace {

namespace fs = std::filesystem;
using SentenceJson = nlohmann::ordered_json;

constexpr std::pair<const char*, Pooling> kPoolings[] = {{"pooling_mode_cls_token", Pooling::kFirstToken},
                                                         {"pooling_mode_mean_tokens", Pooling::kMean},
                                                         {"pooling_mode_lasttoken", Pooling::kLastToken}};

// modules.json: a list of {"type": "sentence_transformers.models.Normalize", …}.
bool names_normalize(const fs::path& path) {
  if (!fs::exists(path)) return false;
  const auto modules = nlohmann::json::parse(read_text(path), nullptr, false);
  return modules.is_array() && std::any_of(modules.begin(), modules.end(), [](const nlohmann::json& module) {
           return module.is_object() && module.contains("type") && module["type"].is_string() &&
                  module["type"].get<std::string>().ends_with(".Normalize");
         });
}

nlohmann::json read_object(const fs::path& path) {
  if (!fs::exists(path)) return nlohmann::json::object();
  const auto json = nlohmann::json::parse(read_text(path), nullptr, false);
  require<DataError>(json.is_object(), "{} is not a JSON object", path.string());
  return json;
}

Pooling pooling_of(const std::string& key, const fs::path& file) {
  for (const auto& [name, pooling] : kPoolings)
    if (key == name) return pooling;
  fail<ConfigError>("{}: {} is not supported; name one yourself: --pooling mean, cls or last", file.string(),
                    key);
}

}  // namespace

bool is_sentence_folder(const fs::path& directory) { return fs::exists(directory / "modules.json"); }

SentenceOptions read_sentence_files(const fs::path& directory, bool pooled) {
  SentenceOptions out;
  const fs::path pooling = directory / "1_Pooling" / "config.json";
  const auto modes = pooled ? read_object(pooling) : nlohmann::json::object();
  for (const auto& [key, value] : modes.items())
    if (key.starts_with("pooling_mode_") && value.is_boolean() && value.get<bool>())
      out.pooling = pooling_of(key, pooling);
  const auto sentence = read_object(directory / "sentence_bert_config.json");
  if (const auto length = sentence.find("max_seq_length");
      length != sentence.end() && length->is_number_integer())
    out.max_length = length->get<std::int64_t>();
  out.normalises = names_normalize(directory / "modules.json");
  return out;
}

std::vector<std::pair<std::string, std::string>> sentence_files(Pooling pooling, std::int64_t width,
                                                                std::int64_t max_length) {
  SentenceJson modules = SentenceJson::array(), modes{{"word_embedding_dimension", width}};
  const auto add = [&](const char* path, const char* type) {
    modules.push_back({{"idx", modules.size()},
                       {"name", std::to_string(modules.size())},
                       {"path", path},
                       {"type", std::string("sentence_transformers.models.") + type}});
  };
  add("", "Transformer");
  add("1_Pooling", "Pooling");
  add("2_Normalize", "Normalize");
  for (const auto& [name, known] : kPoolings) modes[name] = pooling == known;
  const SentenceJson length{{"max_seq_length", max_length}, {"do_lower_case", false}};
  return {{"modules.json", modules.dump(2) + "\n"},
          {"1_Pooling/config.json", modes.dump(2) + "\n"},
          {"sentence_bert_config.json", length.dump(2) + "\n"}};
}

}  // namespace stoa::infer
