// MiniMax M2: experts with sigmoid router scores in every layer, q and k normalised over all heads together.
#include "model/huggingface/expert_keys.h"
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_minimax_m2(JsonKeys& keys, ModelConfig& c) {
  read_llama_sizes(keys, c,
                   {.vocabulary = 200064,
                    .hidden = 3072,
                    .layers = 62,
                    .heads = 48,
                    .ffn = 1536,
                    .groups = 8,
                    .head_size = 128,
                    .positions = 196608});
  c.activation = gated_activation(keys.text("hidden_act").value_or("silu"));
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(false);
  // Released files say rotary_dim in place of a share.
  const auto rotated = keys.integer("rotary_dim", 1);
  const double share = rotated ? static_cast<double>(*rotated) / static_cast<double>(c.head_size()) : 1.0;
  read_rope(keys, c, {.share = share});
  for (const char* key :
       {"use_qk_norm", "qk_norm_type", "use_routing_bias", "scoring_func", "use_mtp", "num_mtp_modules",
        "mtp_transformer_layers", "shared_intermediate_size", "attn_type_list"})
    keys.ignore(key);  // what it is, and layers that are not loaded
  c.qk_layernorm = c.qk_layernorm_all_heads = true;
  read_experts(keys, c, 256, 8);
  MoeConfig& m = c.moe;
  m.moe_aux_loss_coeff = 0;
  m.moe_ffn_hidden_size = c.ffn_size();
  m.moe_router_score_function = RouterScoreFunction::kSigmoid;
  m.moe_router_enable_expert_bias = true;
  const double jitter = keys.number("router_jitter_noise").value_or(0);
  require<ConfigError>(jitter == 0, "config.json: router_jitter_noise {} is not supported, only 0", jitter);
}

void write_minimax_m2(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_keys(spec, json);
  write_experts(c, json);
  json["intermediate_size"] = c.moe_ffn_size();
  json["router_jitter_noise"] = 0.0;
  json["rotary_dim"] = c.rotary_channels();
  json["partial_rotary_factor"] = c.rotary_percentage;
  json["rope_parameters"]["partial_rotary_factor"] = c.rotary_percentage;
}

NameMap minimax_m2_names() {
  NameMap out = llama_names();
  out.needless = is_further_layer;
  add_rules(out, block_sparse_names());
  add_rules(out, {{.file = "model.layers.{}.block_sparse_moe.e_score_correction_bias",
                   .parts = {"layers.{}.moe.router.expert_bias"},
                   .suffix = false}});
  return out;
}

}  // namespace

const Family kMinimaxM2{"minimax_m2", "MiniMaxM2ForCausalLM", read_minimax_m2, write_minimax_m2,
                        minimax_m2_names};

}  // namespace stoa::model::huggingface
