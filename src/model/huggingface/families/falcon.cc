// Falcon (2311.16867): parallel branches with one norm (7B, 2-11B) or two (40B, 180B); q, k and v fused group
// by group.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_falcon(JsonKeys& keys, ModelConfig& c) {
  const auto size = [&](const char* key, const char* old, std::int64_t fallback) {
    const auto first = keys.integer(old, 1);
    return keys.integer(key, 1).value_or(first.value_or(fallback));
  };
  c.vocab_size = keys.integer("vocab_size", 1).value_or(65024);
  c.hidden_size = size("hidden_size", "n_embed", 4544);
  c.num_layers = size("num_hidden_layers", "n_layer", 32);
  c.num_attention_heads = size("num_attention_heads", "n_head", 71);
  const std::int64_t groups = size("num_kv_heads", "n_head_kv", c.num_attention_heads);
  c.ffn_hidden_size = keys.integer("ffn_hidden_size", 1).value_or(4 * c.hidden_size);
  c.max_position_embeddings = keys.integer("max_position_embeddings", 1).value_or(2048);
  require<ConfigError>(!keys.boolean("alibi").value_or(false),
                       "config.json: alibi true is not supported for falcon, whose biases are rounded to "
                       "bf16; only rotary positions are");
  c.position_embedding_type = PositionEmbedding::kRope;
  c.normalization = Normalization::kLayerNorm;
  c.layernorm_epsilon = keys.number("layer_norm_epsilon").value_or(1e-5);
  c.activation = plain_activation(keys.text("activation").value_or("gelu"));
  const bool bias = keys.boolean("bias").value_or(false);
  set_biases(c, bias, bias, bias);
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(true);
  c.hidden_dropout = keys.number("hidden_dropout").value_or(0);
  c.attention_dropout = keys.number("attention_dropout").value_or(0);
  const bool grouped = keys.boolean("new_decoder_architecture").value_or(false),
             one = keys.boolean("multi_query").value_or(true);
  c.num_query_groups = grouped ? groups : one ? 1 : c.num_attention_heads;
  c.use_parallel_residual = keys.boolean("parallel_attn").value_or(true);
  c.num_ln_in_parallel_attn = keys.integer("num_ln_in_parallel_attn", 1, 2).value_or(grouped ? 2 : 1);
  require<ConfigError>(
      grouped ? c.use_parallel_residual : !c.use_parallel_residual || c.num_ln_in_parallel_attn == 1,
      "config.json: falcon with new_decoder_architecture {}, parallel_attn {} and {} norms has no definition",
      grouped, c.use_parallel_residual, c.num_ln_in_parallel_attn);
  if (!c.use_parallel_residual) c.num_ln_in_parallel_attn = 2;
  read_rope(keys, c, {});
}

bool has_two_norms_at_once(const ModelConfig& c) {
  return c.use_parallel_residual && c.num_ln_in_parallel_attn == 2;
}

// new_decoder_architecture: two norms, or any number of keys and values.
bool is_grouped(const ModelConfig& c) {
  const bool some = c.query_groups() != 1 && c.query_groups() != c.num_attention_heads;
  return has_two_norms_at_once(c) || (c.use_parallel_residual && some);
}

void write_falcon(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  json["vocab_size"] = spec.vocabulary;
  json["hidden_size"] = c.hidden_size;
  json["num_hidden_layers"] = c.num_layers;
  json["num_attention_heads"] = c.num_attention_heads;
  json["num_kv_heads"] = c.query_groups();
  json["ffn_hidden_size"] = c.ffn_size();
  json["max_position_embeddings"] = c.max_positions();
  json["alibi"] = false;
  json["layer_norm_epsilon"] = c.layernorm_epsilon;
  json["activation"] = activation_name(c.activation);
  json["bias"] = c.has_mlp_bias();
  json["hidden_dropout"] = c.hidden_dropout;
  json["attention_dropout"] = c.attention_dropout;
  json["new_decoder_architecture"] = is_grouped(c);
  json["multi_query"] = c.query_groups() == 1;
  json["parallel_attn"] = c.use_parallel_residual;
  json["num_ln_in_parallel_attn"] = has_two_norms_at_once(c) ? 2 : 1;
  write_rope(c, json);
}

NameMap falcon_names() {
  return {
      .prefix = "transformer.",
      .rules =
          {{"transformer.word_embeddings", {"embedding.tokens"}},
           {"transformer.ln_f", {"final_norm"}},
           {"lm_head", {"head"}},
           {.file = "transformer.h.{}.ln_attn", .parts = {"layers.{}.norm1"}, .when = has_two_norms_at_once},
           {.file = "transformer.h.{}.ln_mlp", .parts = {"layers.{}.norm2"}, .when = has_two_norms_at_once},
           {"transformer.h.{}.input_layernorm", {"layers.{}.norm1"}},
           {"transformer.h.{}.post_attention_layernorm", {"layers.{}.norm2"}},
           {"transformer.h.{}.self_attention.query_key_value",
            {"layers.{}.attention.q", "layers.{}.attention.k", "layers.{}.attention.v"},
            by_group},
           {"transformer.h.{}.self_attention.dense", {"layers.{}.attention.out"}},
           {"transformer.h.{}.mlp.dense_h_to_4h", {"layers.{}.mlp.up"}},
           {"transformer.h.{}.mlp.dense_4h_to_h", {"layers.{}.mlp.down"}}},
      .needless = [](std::string_view name, const ModelConfig&) {
        return name.ends_with("rotary_emb.inv_freq") || name.ends_with("maybe_rotary.inv_freq");
      }};
}

}  // namespace

const Family kFalcon{"falcon", "FalconForCausalLM", read_falcon, write_falcon, falcon_names};

}  // namespace stoa::model::huggingface
