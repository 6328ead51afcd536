// Hunyuan dense (Tencent 2025): llama with norms of q and k after their rotation, and a scaled rotary base.
#include <cmath>

#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

// Keys for training, or for other models of the same code.
constexpr const char* kNeedlessInHunyuan[] = {"eod_token_id",   "im_end_id",
                                              "im_newline_id",  "im_start_id",
                                              "text_start_id",  "text_end_id",
                                              "mask_init_id",   "sep_token_id",
                                              "org_vocab_size", "add_classification_head",
                                              "class_num",      "pool_type",
                                              "norm_type",      "cla_share_factor",
                                              "dense_list",     "position_embedding_xdrope"};

// "dynamic" with an alpha is a fixed base: theta * alpha^(d / (d - 2)).
nlohmann::json without_alpha(const nlohmann::json& given, ModelConfig& c, double theta) {
  nlohmann::json out = given;
  const auto alpha = given.find("alpha");
  if (alpha == given.end()) return out;
  out.erase("alpha");
  if (alpha->is_null()) return out;
  const std::string type =
      given.contains("rope_type") ? given.value("rope_type", "") : given.value("type", "");
  require<ConfigError>(alpha->is_number() && alpha->get<double>() > 0 && type == "dynamic",
                       "config.json: rope_parameters.alpha counts with rope_type dynamic, above 0");
  const double d = static_cast<double>(c.head_size());
  out = {{"rope_type", "default"},
         {"rope_theta", given.value("rope_theta", theta) * std::pow(alpha->get<double>(), d / (d - 2))}};
  return out;
}

void read_hunyuan(JsonKeys& keys, ModelConfig& c) {
  read_llama_sizes(keys, c, {.vocabulary = 290943, .positions = 2048, .epsilon = 1e-5});
  if (const auto head = keys.integer("attention_head_dim", 1); head && !c.kv_channels) c.kv_channels = head;
  c.activation = gated_activation(keys.text("hidden_act").value_or("silu"));
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(false);
  c.qk_layernorm = c.qk_layernorm_after_rope = true;
  keys.only("use_qk_norm", true);
  read_attention_bias(keys, c);
  keys.only("mlp_bias", false);
  keys.only("use_cla", false);
  c.rotary_base = keys.number("rope_theta").value_or(10000);
  const auto* scaling = keys.object("rope_scaling");
  if (const auto* parameters = keys.object("rope_parameters")) scaling = parameters;
  if (scaling) read_rope_parameters(without_alpha(*scaling, c, c.rotary_base), c, {});
  for (const char* key : kNeedlessInHunyuan) keys.ignore(key);
}

void write_hunyuan(const ModelSpec& spec, Json& json) {
  write_llama_keys(spec, json);
  json["use_qk_norm"] = true;
  json["attention_bias"] = spec.config.has_qkv_bias();
}

NameMap hunyuan_names() {
  NameMap out = llama_names();
  for (NameRule& rule : out.rules) {
    if (rule.parts.front() == "layers.{}.attention.q_norm")
      rule.file = "model.layers.{}.self_attn.query_layernorm";
    if (rule.parts.front() == "layers.{}.attention.k_norm")
      rule.file = "model.layers.{}.self_attn.key_layernorm";
  }
  return out;
}

}  // namespace

const Family kHunyuanDense{"hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", read_hunyuan, write_hunyuan,
                           hunyuan_names};

}  // namespace stoa::model::huggingface
