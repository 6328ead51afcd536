// gpt-oss (2508.10925): experts with biases and a clamped gate in every layer, attention sinks, windows in
// every second layer.
#include "model/huggingface/expert_keys.h"
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"
#include "model/huggingface/rope_keys.h"
#include "model/huggingface/window_keys.h"

namespace stoa::model::huggingface {
namespace {

constexpr std::int64_t kWindow = 128;

// The scaling if the file has no rotary parameters or rope_scaling is null, as transformers 5.x reads it.
nlohmann::json gpt_oss_rope() {
  return {{"rope_type", "yarn"}, {"factor", 32.0},    {"beta_fast", 32.0},
          {"beta_slow", 1.0},    {"truncate", false}, {"original_max_position_embeddings", 4096}};
}

void read_gpt_oss(JsonKeys& keys, ModelConfig& c) {
  constexpr double kTheta = 150000;
  read_llama_sizes(keys, c,
                   {.vocabulary = 201088,
                    .hidden = 2880,
                    .layers = 36,
                    .heads = 64,
                    .ffn = 2880,
                    .groups = 8,
                    .head_size = 64,
                    .positions = 131072,
                    .epsilon = 1e-5});
  read_rope(keys, c, {.base = kTheta});
  if (!keys.has("rope_scaling") && !keys.has("rope_parameters"))
    read_rope_parameters(gpt_oss_rope(), c, {.base = kTheta});
  keys.ignore("initial_context_length");  // original_max_position_embeddings of rope_scaling
  keys.ignore("experts_per_token");       // num_experts_per_tok
  keys.ignore("quantization_config");     // how the experts' matrices are read (MXFP4), not what they are
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(false);
  c.bias = BiasKind::kAll;
  c.qkv_bias = c.attention_output_bias = keys.boolean("attention_bias").value_or(true);
  c.attention_sinks = true;
  const std::string act = keys.text("hidden_act").value_or("silu");
  require<ConfigError>(act == "silu",
                       "config.json: hidden_act '{}' is not supported for gpt_oss, only 'silu'", act);
  c.activation = Activation::kClampedSwiglu;
  c.activation_alpha = keys.number("swiglu_alpha").value_or(1.702);
  c.activation_limit = keys.number("swiglu_limit").value_or(7.0);
  c.window_attn_skip_freq = 2;
  auto window = keys.integer("sliding_window", 1);
  if (!keys.contains("sliding_window")) window = kWindow;
  read_window(keys, c, window, 0);
  read_experts(keys, c, 128, 4);
  c.moe.moe_ffn_hidden_size = c.ffn_size();
}

void write_gpt_oss(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_sizes(spec, json);
  write_rope(c, json);
  json["rope_scaling"] = json["rope_parameters"];
  json["hidden_act"] = "silu";
  json["attention_bias"] = c.has_qkv_bias();
  json["swiglu_alpha"] = c.activation_alpha;
  json["swiglu_limit"] = c.activation_limit;
  // layer_types say which layers have a window; transformers builds masks from the size in any case.
  json["sliding_window"] = c.window_size.value_or(kWindow);
  write_layer_types(c, json);
  write_experts(c, json);
  json["intermediate_size"] = c.moe_ffn_size();
}

NameMap gpt_oss_names() {
  NameMap out = llama_names();
  const std::vector<NameRule> own{
      {.file = "model.layers.{}.self_attn.sinks", .parts = {"layers.{}.attention.sinks"}, .suffix = false},
      {"model.layers.{}.mlp.router", {"layers.{}.moe.router"}},
      {.file = "model.layers.{}.mlp.experts.gate_up_proj",
       .parts = {"layers.{}.moe.experts.{}.gate.weight", "layers.{}.moe.experts.{}.up.weight"},
       .arrange = interleaved,
       .transposed = true,
       .suffix = false,
       .packed = true},
      {.file = "model.layers.{}.mlp.experts.gate_up_proj_bias",
       .parts = {"layers.{}.moe.experts.{}.gate.bias", "layers.{}.moe.experts.{}.up.bias"},
       .arrange = interleaved,
       .suffix = false,
       .packed = true},
      {.file = "model.layers.{}.mlp.experts.down_proj",
       .parts = {"layers.{}.moe.experts.{}.down.weight"},
       .transposed = true,
       .suffix = false,
       .packed = true},
      {.file = "model.layers.{}.mlp.experts.down_proj_bias",
       .parts = {"layers.{}.moe.experts.{}.down.bias"},
       .suffix = false,
       .packed = true}};
  out.rules.insert(out.rules.end(), own.begin(), own.end());
  return out;
}

}  // namespace

const Family kGptOss{
    "gpt_oss", "GptOssForCausalLM", read_gpt_oss, write_gpt_oss, gpt_oss_names, nullptr, nullptr, "mxfp4"};

}  // namespace stoa::model::huggingface
