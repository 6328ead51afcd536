#include "model/huggingface/generation_config.h"

#include <algorithm>
#include <array>

#include "model/huggingface/json_keys.h"

namespace stoa::model::huggingface {
namespace {

// A wish that is not followed, and the values by which it wishes nothing.
struct Wish {
  const char* key;
  std::optional<double> neutral, also;
};
constexpr std::array kNotFollowed{Wish{"num_beams", 1, {}},
                                  Wish{"num_beam_groups", 1, {}},
                                  Wish{"penalty_alpha", 0, {}},
                                  Wish{"epsilon_cutoff", 0, {}},
                                  Wish{"eta_cutoff", 0, {}},
                                  Wish{"top_h", {}, {}},
                                  Wish{"encoder_repetition_penalty", 1, {}},
                                  Wish{"no_repeat_ngram_size", 0, {}},
                                  Wish{"encoder_no_repeat_ngram_size", 0, {}},
                                  Wish{"min_length", 0, {}},
                                  Wish{"min_new_tokens", 0, {}},
                                  Wish{"guidance_scale", 1, 0},
                                  Wish{"forced_bos_token_id", {}, {}},
                                  Wish{"forced_eos_token_id", {}, {}},
                                  Wish{"forced_decoder_ids", {}, {}},
                                  Wish{"sequence_bias", {}, {}},
                                  Wish{"exponential_decay_length_penalty", {}, {}},
                                  Wish{"watermarking_config", {}, {}},
                                  Wish{"stop_strings", {}, {}}};

bool wishes_nothing(const nlohmann::json& value, const Wish& wish) {
  if (value.is_null() || (value.is_structured() && value.empty())) return true;
  if (!value.is_number()) return false;
  const double number = value.get<double>();
  return number == wish.neutral || number == wish.also;
}

std::vector<std::int32_t> ids(JsonKeys& keys, const char* key) {
  std::vector<std::int32_t> out;
  for (const std::int64_t id : keys.integers(key)) {
    require<ConfigError>(id >= 0 && id <= INT32_MAX, "{}: {}: {} is not a token id", GenerationConfig::kFile,
                         key, id);
    out.push_back(static_cast<std::int32_t>(id));
  }
  return out;
}

std::vector<std::vector<std::int32_t>> words(const nlohmann::json& json) {
  std::vector<std::vector<std::int32_t>> out;
  const auto found = json.find("bad_words_ids");
  if (found == json.end() || found->is_null()) return out;
  const auto well_formed = [](const nlohmann::json& word) {
    if (!word.is_array() || word.empty()) return false;
    for (const auto& id : word)
      if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() > INT32_MAX)
        return false;
    return true;
  };
  require<ConfigError>(found->is_array() && std::all_of(found->begin(), found->end(), well_formed),
                       "{}: bad_words_ids: expected a list of lists of token ids", GenerationConfig::kFile);
  for (const auto& word : *found) out.push_back(word.get<std::vector<std::int32_t>>());
  return out;
}

}  // namespace

GenerationConfig read_generation_config(std::string_view text) {
  constexpr const char* kFile = GenerationConfig::kFile;
  // Deep nesting serves no purpose and would cost stack.
  const auto shallow = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    require<ConfigError>(depth < 32, "{} is nested more than 32 deep", GenerationConfig::kFile);
    return true;
  };
  const nlohmann::json json = nlohmann::json::parse(text, shallow, false);
  require<ConfigError>(json.is_object(), "{} is not a JSON object", kFile);
  JsonKeys keys(json, "", kFile);
  const auto token = [&](const char* key) {
    auto id = keys.integer(key, -1, INT32_MAX);
    if (id == -1) id.reset();
    return id;
  };
  GenerationConfig out;
  out.special.bos = token("bos_token_id");
  out.special.decoder_start = token("decoder_start_token_id");
  for (const std::int32_t id : ids(keys, "eos_token_id")) out.special.eos.push_back(id);
  out.special.pad = token("pad_token_id");
  out.do_sample = keys.boolean("do_sample");
  out.temperature = keys.number("temperature");
  out.top_p = keys.number("top_p");
  out.min_p = keys.number("min_p");
  out.typical_p = keys.number("typical_p");
  out.top_k = keys.integer("top_k");
  out.repetition_penalty = keys.number("repetition_penalty");
  out.max_new_tokens = keys.integer("max_new_tokens", 1);
  out.suppressed = ids(keys, "suppress_tokens");
  out.suppressed_first = ids(keys, "begin_suppress_tokens");
  out.bad_words = words(json);
  for (const Wish& wish : kNotFollowed)
    if (const auto found = json.find(wish.key); found != json.end() && !wishes_nothing(*found, wish))
      out.not_followed.push_back(fmt::format(
          "{} {}", wish.key, found->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  return out;
}

std::string write_generation_config(const SpecialTokens& special) {
  Json json;
  if (special.bos) json["bos_token_id"] = *special.bos;
  if (special.decoder_start) json["decoder_start_token_id"] = *special.decoder_start;
  if (special.eos.size() == 1) json["eos_token_id"] = special.eos[0];
  if (special.eos.size() > 1) json["eos_token_id"] = special.eos;
  if (special.pad) json["pad_token_id"] = *special.pad;
  return (json.empty() ? Json::object() : json).dump(2) + "\n";
}

}  // namespace stoa::model::huggingface
