#include "model/huggingface/rope_keys.h"

#include <array>

#include "base/nearest.h"
#include "model/huggingface/json_keys.h"

namespace stoa::model::huggingface {
namespace {

constexpr std::array<std::pair<std::string_view, RopeScaling>, 6> kTypes{
    {{"default", RopeScaling::kDefault},
     {"linear", RopeScaling::kLinear},
     {"dynamic", RopeScaling::kDynamic},
     {"llama3", RopeScaling::kLlama3},
     {"yarn", RopeScaling::kYarn},
     {"longrope", RopeScaling::kLongrope}}};

RopeScaling type_of(const std::string& name) {
  if (name == "su") return RopeScaling::kLongrope;
  std::vector<std::string> known;
  for (const auto& [own, value] : kTypes) {
    if (own == name) return value;
    known.emplace_back(own);
  }
  fail<ConfigError>(
      "config.json: rope type '{}' is not known{}; known: default, linear, dynamic, llama3, yarn, longrope",
      name, did_you_mean(name, known));
}

std::string name_of(RopeScaling type) {
  for (const auto& [name, value] : kTypes)
    if (value == type) return std::string(name);
  fail<InternalError>("a rope scaling without name");
}

// Share of a head that rotates.
void read_share(JsonKeys& from, ModelConfig& c, const RopeDefaults& defaults) {
  c.rotary_percentage = from.number("partial_rotary_factor").value_or(c.rotary_percentage);
  require<ConfigError>(
      defaults.share || c.rotary_percentage == 1,
      "config.json: partial_rotary_factor other than 1 is not supported for this model_type");
}

}  // namespace

void read_rope_parameters(const nlohmann::json& object, ModelConfig& c, const RopeDefaults& defaults) {
  JsonKeys rope(object, "rope_parameters.");
  read_share(rope, c, defaults);
  RopeScalingConfig& s = c.rope_scaling;
  const auto old_name = rope.text("type");
  s.type = type_of(rope.text("rope_type").value_or(old_name.value_or("default")));
  c.rotary_base = rope.number("rope_theta").value_or(c.rotary_base);
  s.factor = rope.number("factor");
  const auto original = rope.integer("original_max_position_embeddings", 1);
  if (!s.original_max_position_embeddings) s.original_max_position_embeddings = original;
  s.low_freq_factor = rope.number("low_freq_factor").value_or(1);
  s.high_freq_factor = rope.number("high_freq_factor").value_or(4);
  s.beta_fast = rope.number("beta_fast").value_or(32);
  s.beta_slow = rope.number("beta_slow").value_or(1);
  s.mscale = rope.number("mscale");
  s.mscale_all_dim = rope.number("mscale_all_dim");
  s.attention_factor = rope.number("attention_factor");
  s.truncate = rope.boolean("truncate").value_or(true);
  s.short_factor = rope.numbers("short_factor").value_or(std::vector<double>());
  s.long_factor = rope.numbers("long_factor").value_or(std::vector<double>());
  if (defaults.grids)
    for (const char* key : {"mrope_section", "mrope_interleaved"}) rope.ignore(key);
  rope.finish("rope scaling");
  if (s.type == RopeScaling::kYarn && !s.short_factor.empty())
    s.type = RopeScaling::kLongrope;  // what early Phi-3 files called it
  if (s.type == RopeScaling::kDefault) s = {};
  if (!s.factor && s.type == RopeScaling::kYarn && s.original_max_position_embeddings)
    s.factor =
        static_cast<double>(c.max_positions()) / static_cast<double>(*s.original_max_position_embeddings);
}

void read_rope(JsonKeys& keys, ModelConfig& c, const RopeDefaults& defaults) {
  c.rotary_base = keys.number("rope_theta").value_or(defaults.base);
  c.rotary_percentage = defaults.share.value_or(1);
  read_share(keys, c, defaults);
  // As in transformers, where `rope_scaling or rope_parameters` decides.
  const auto* scaling = keys.object("rope_scaling");
  const auto* parameters = keys.object("rope_parameters");
  if (!scaling || scaling->empty()) scaling = parameters;
  // Phi-3's, next to the dictionary, counts first.
  c.rope_scaling.original_max_position_embeddings = keys.integer("original_max_position_embeddings", 1);
  if (scaling)
    read_rope_parameters(*scaling, c, defaults);
  else
    c.rope_scaling = {};
}

void check_rotated_pairs(const ModelConfig& c) {
  require<ConfigError>(
      c.rotary_channels() > 0 && c.rotary_channels() % 2 == 0,
      "config.json: partial_rotary_factor {} of {} channels per head is {}, expected an even "
      "number above 0, as channels rotate in pairs",
      c.rotary_percentage, c.head_size(), c.rotary_channels());
}

Json rope_parameters(const ModelConfig& c) {
  const RopeScalingConfig& s = c.rope_scaling;
  Json rope;
  const auto set = [&](const char* key, const auto& optional) {
    if (optional) rope[key] = *optional;
  };
  rope["rope_type"] = name_of(s.type);
  if (s.type != RopeScaling::kDefault) {
    set("factor", s.factor);
    set("original_max_position_embeddings", s.original_max_position_embeddings);
    set("attention_factor", s.attention_factor);
  }
  if (s.type == RopeScaling::kLlama3) {
    rope["low_freq_factor"] = s.low_freq_factor;
    rope["high_freq_factor"] = s.high_freq_factor;
    if (!s.original_max_position_embeddings) rope["original_max_position_embeddings"] = c.max_positions();
  }
  if (s.type == RopeScaling::kYarn) {
    rope["beta_fast"] = s.beta_fast;
    rope["beta_slow"] = s.beta_slow;
    set("mscale", s.mscale);
    set("mscale_all_dim", s.mscale_all_dim);
    if (!s.truncate) rope["truncate"] = false;
  }
  if (s.type == RopeScaling::kLongrope) {
    rope["short_factor"] = s.short_factor;
    rope["long_factor"] = s.long_factor;
  }
  if (c.rotary_percentage != 1) rope["partial_rotary_factor"] = c.rotary_percentage;
  rope["rope_theta"] = c.rotary_base;
  return rope;
}

void write_rope(const ModelConfig& c, Json& json) {
  const RopeScalingConfig& s = c.rope_scaling;
  const Json rope = rope_parameters(c);
  if (c.rotary_percentage != 1) json["partial_rotary_factor"] = c.rotary_percentage;
  json["rope_theta"] = c.rotary_base;
  json["rope_scaling"] = s.type == RopeScaling::kDefault ? Json() : rope;
  json["rope_parameters"] = rope;
  if (s.type == RopeScaling::kLongrope && s.original_max_position_embeddings)
    json["original_max_position_embeddings"] = *s.original_max_position_embeddings;
}

namespace {

void read_nested(JsonKeys& kinds, const nlohmann::json* scaling, ModelConfig& c, double base,
                 double local_base) {
  c.rotary_base = base;
  c.rope_local_base_freq = local_base;
  nlohmann::json full = nlohmann::json::object();
  if (const auto* given = kinds.object("full_attention")) full = *given;
  if (scaling) full.update(*scaling);  // as transformers does
  read_rope_parameters(full, c, {.base = base});
  if (const auto* local = kinds.object("sliding_attention")) {
    ModelConfig sliding = c;
    sliding.rope_scaling = {};
    sliding.rotary_base = local_base;
    read_rope_parameters(*local, sliding, {.base = local_base});
    require<ConfigError>(sliding.rope_scaling.type == RopeScaling::kDefault,
                         "config.json: rope_parameters.sliding_attention is scaled; supported is rope_type "
                         "default");
    c.rope_local_base_freq = sliding.rotary_base;
  }
  kinds.finish("rope_parameters");
}

}  // namespace

void read_layered_rope(JsonKeys& keys, ModelConfig& c, double base, double local_base) {
  const auto local = keys.number("rope_local_base_freq");
  const auto* both = keys.object("rope_parameters");
  if (both && (both->contains("full_attention") || both->contains("sliding_attention"))) {
    const double theta = keys.number("rope_theta").value_or(base);
    JsonKeys kinds(*both, "rope_parameters.");
    read_nested(kinds, keys.object("rope_scaling"), c, theta, local.value_or(local_base));
  } else {
    read_rope(keys, c, {.base = base});
    c.rope_local_base_freq = local.value_or(local_base);
  }
  if (!c.window_size) c.rope_local_base_freq.reset();  // no layer that would read it
}

void write_layered_rope(const ModelConfig& c, Json& json) {
  write_rope(c, json);
  json["rope_local_base_freq"] = c.rope_local_base_freq.value_or(c.rotary_base);
  ModelConfig local = c;
  local.rotary_base = json["rope_local_base_freq"].get<double>();
  local.rope_scaling = {};
  json["rope_parameters"] = {{"full_attention", rope_parameters(c)},
                             {"sliding_attention", rope_parameters(local)}};
}

}  // namespace stoa::model::huggingface
