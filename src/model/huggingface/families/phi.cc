// Phi 1, 1.5, 2 (2306.11644, 2309.05463): parallel branches with one shared LayerNorm, partial rotary
// positions, a bias in the output head.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_phi(JsonKeys& keys, ModelConfig& c) {
  read_llama_sizes(
      keys, c,
      {.vocabulary = 51200, .hidden = 2048, .layers = 24, .heads = 32, .ffn = 8192, .positions = 2048});
  keys.ignore("rms_norm_eps");
  c.normalization = Normalization::kLayerNorm;
  c.layernorm_epsilon = keys.number("layer_norm_eps").value_or(1e-5);
  c.bias = BiasKind::kAll;
  c.lm_head_bias = true;
  c.use_parallel_residual = true;
  c.num_ln_in_parallel_attn = 1;
  c.activation = plain_activation(keys.text("hidden_act").value_or("gelu_new"));
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(false);
  c.qk_layernorm = keys.boolean("qk_layernorm").value_or(false);
  c.hidden_dropout = keys.number("resid_pdrop").value_or(0);
  c.embedding_dropout = keys.number("embd_pdrop").value_or(0);
  read_rope(keys, c, {.share = 0.5});
  check_rotated_pairs(c);
}

void write_phi(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_llama_sizes(spec, json);
  json.erase("rms_norm_eps");
  json["layer_norm_eps"] = c.layernorm_epsilon;
  json["hidden_act"] = activation_name(c.activation);
  json["qk_layernorm"] = c.qk_layernorm;
  json["resid_pdrop"] = c.hidden_dropout;
  json["embd_pdrop"] = c.embedding_dropout;
  write_rope(c, json);
  json["partial_rotary_factor"] = c.rotary_percentage;  // 1 is not the default
  json["rope_parameters"]["partial_rotary_factor"] = c.rotary_percentage;
}

NameMap phi_names() {
  return {.prefix = "model.",
          .rules = {{"model.embed_tokens", {"embedding.tokens"}},
                    {"model.final_layernorm", {"final_norm"}},
                    {"lm_head", {"head"}},
                    {"model.layers.{}.input_layernorm", {"layers.{}.norm1"}},
                    {"model.layers.{}.self_attn.q_proj", {"layers.{}.attention.q"}},
                    {"model.layers.{}.self_attn.k_proj", {"layers.{}.attention.k"}},
                    {"model.layers.{}.self_attn.v_proj", {"layers.{}.attention.v"}},
                    {"model.layers.{}.self_attn.q_layernorm", {"layers.{}.attention.q_norm"}},
                    {"model.layers.{}.self_attn.k_layernorm", {"layers.{}.attention.k_norm"}},
                    {"model.layers.{}.self_attn.dense", {"layers.{}.attention.out"}},
                    {"model.layers.{}.mlp.fc1", {"layers.{}.mlp.up"}},
                    {"model.layers.{}.mlp.fc2", {"layers.{}.mlp.down"}}},
          .needless = [](std::string_view name, const ModelConfig&) {
            return name.ends_with("rotary_emb.inv_freq");
          }};
}

}  // namespace

const Family kPhi{"phi", "PhiForCausalLM", read_phi, write_phi, phi_names};

}  // namespace stoa::model::huggingface
