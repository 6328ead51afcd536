#include "model/gguf/rope_factors.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace stoa::model::gguf {
namespace {

// What Llama 3.1's scaling divides the frequencies by (transformers: _compute_llama3_parameters).
std::vector<double> llama3_factors(const ModelConfig& c, const RopeScalingConfig& s) {
  const auto original = static_cast<double>(s.original_max_position_embeddings.value_or(8192));
  const double factor = s.factor.value_or(1);
  std::vector<double> out;
  const std::int64_t rotated = c.rotary_size();
  for (std::int64_t i = 0; i < rotated; i += 2) {
    const double length =
        2 * std::numbers::pi * std::pow(c.rotary_base, static_cast<double>(i) / static_cast<double>(rotated));
    if (length < original / s.high_freq_factor)
      out.push_back(1);
    else if (length > original / s.low_freq_factor)
      out.push_back(factor);
    else {
      const double smooth =
          (original / length - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
      out.push_back(1 / ((1 - smooth) / factor + smooth));
    }
  }
  return out;
}

bool nearly_equal(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](double x, double y) {
           return std::abs(x - y) <= 1e-4 * std::abs(y);
         });
}

// Llama 3.1's scaling where the numbers are its own, else the numbers as they are.
void set_factors(const std::vector<double>& factors, ModelConfig& c) {
  RopeScalingConfig llama3;
  llama3.type = RopeScaling::kLlama3;
  llama3.factor = std::round(*std::max_element(factors.begin(), factors.end()));
  llama3.original_max_position_embeddings = 8192;
  if (nearly_equal(factors, llama3_factors(c, llama3))) {
    c.rope_scaling = llama3;
    return;
  }
  c.rope_scaling.type = RopeScaling::kLongrope;
  c.rope_scaling.short_factor = c.rope_scaling.long_factor = factors;
  c.rope_scaling.attention_factor = 1;
  c.rope_scaling.original_max_position_embeddings = c.max_positions();
}

void read_yarn(JsonKeys& keys, RopeScalingConfig& s) {
  s.type = RopeScaling::kYarn;
  s.beta_fast = keys.number("rope.scaling.yarn_beta_fast").value_or(s.beta_fast);
  s.beta_slow = keys.number("rope.scaling.yarn_beta_slow").value_or(s.beta_slow);
  // llama.cpp multiplies what YaRN derives from the factor by these.
  for (const char* name :
       {"rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor", "rope.scaling.yarn_ext_factor"})
    require<ConfigError>(keys.number(name).value_or(1) == 1, "{} other than 1 is not supported with yarn",
                         name);
  s.attention_factor.reset();
}

}  // namespace

void read_rope_scaling(JsonKeys& keys, ModelConfig& c) {
  RopeScalingConfig& s = c.rope_scaling;
  const std::string type = keys.text("rope.scaling.type").value_or("none");
  s.factor = keys.number("rope.scaling.factor");
  if (const auto old = keys.number("rope.scale_linear"); old && !s.factor) s.factor = old;
  s.original_max_position_embeddings = keys.integer("rope.scaling.original_context_length", 1);
  s.attention_factor = keys.number("rope.scaling.attn_factor");
  if (type == "yarn")
    read_yarn(keys, s);
  else if (type == "longrope")
    s.type = RopeScaling::kLongrope;
  else if (type == "linear" || (type == "none" && s.factor.value_or(1) != 1))
    s.type = RopeScaling::kLinear;
  else
    require<ConfigError>(type == "none", "rope.scaling.type is '{}', expected none, linear, yarn or longrope",
                         type);
  if (s.type == RopeScaling::kLinear && s.factor.value_or(1) == 1) s.type = RopeScaling::kDefault;
  const auto both = keys.numbers("rope_freqs"), near = keys.numbers("rope_factors_short"),
             far = keys.numbers("rope_factors_long");
  if (near && far) {
    s.type = RopeScaling::kLongrope;
    s.short_factor = *near;
    s.long_factor = *far;
    return;
  }
  require<ConfigError>(s.type != RopeScaling::kLongrope,
                       "longrope needs the tensors rope_factors_short and rope_factors_long");
  if (s.type == RopeScaling::kDefault) s = {};
  if (both && !both->empty() && !nearly_equal(*both, std::vector<double>(both->size(), 1))) {
    require<ConfigError>(s.type == RopeScaling::kDefault,
                         "rope_freqs together with rope.scaling.type {} is not supported", type);
    set_factors(*both, c);
  }
}

void write_rope_scaling(const ModelConfig& c, Json& json) {
  const RopeScalingConfig& s = c.rope_scaling;
  switch (s.type) {
    case RopeScaling::kDefault:
      return;
    case RopeScaling::kLlama3:
      json["rope_freqs"] = llama3_factors(c, s);
      return;
    case RopeScaling::kLongrope:
      json["rope_factors_short"] = s.short_factor;
      json["rope_factors_long"] = s.long_factor;
      json["rope.scaling.attn_factor"] = s.attention_factor.value_or(1);
      break;
    case RopeScaling::kYarn:
      json["rope.scaling.type"] = "yarn";
      if (s.beta_fast != RopeScalingConfig().beta_fast) json["rope.scaling.yarn_beta_fast"] = s.beta_fast;
      if (s.beta_slow != RopeScalingConfig().beta_slow) json["rope.scaling.yarn_beta_slow"] = s.beta_slow;
      break;
    case RopeScaling::kLinear:
      json["rope.scaling.type"] = "linear";
      break;
    case RopeScaling::kDynamic:
      fail<ConfigError>("GGUF has no words for rotary positions of type dynamic");
  }
  if (s.factor) json["rope.scaling.factor"] = *s.factor;
  if (s.original_max_position_embeddings)
    json["rope.scaling.original_context_length"] = *s.original_max_position_embeddings;
}

}  // namespace stoa::model::gguf
