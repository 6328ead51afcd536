// OPT (2205.01068): GPT-2 with ReLU and positions counted from 2.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

constexpr std::int64_t kFirstOfOpt = 2;
constexpr double kEpsilon = 1e-5;

void read_opt(JsonKeys& keys, ModelConfig& c) {
  c.vocab_size = keys.integer("vocab_size", 1).value_or(50272);
  c.hidden_size = keys.integer("hidden_size", 1).value_or(768);
  c.num_layers = keys.integer("num_hidden_layers", 1).value_or(12);
  c.num_attention_heads = keys.integer("num_attention_heads", 1).value_or(12);
  c.ffn_hidden_size = keys.integer("ffn_dim", 1).value_or(3072);
  c.max_position_embeddings = keys.integer("max_position_embeddings", 1).value_or(2048);
  c.position_embedding_type = PositionEmbedding::kLearnedAbsolute;
  c.first_position = kFirstOfOpt;
  c.normalization = Normalization::kLayerNorm;
  c.layernorm_epsilon = kEpsilon;
  c.activation = plain_activation(keys.text("activation_function").value_or("relu"));
  c.bias = keys.boolean("enable_bias").value_or(true) ? BiasKind::kAll : BiasKind::kNone;
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(true);
  c.hidden_dropout = keys.number("dropout").value_or(0.1);
  c.attention_dropout = keys.number("attention_dropout").value_or(0);
  c.init_method_std = keys.number("init_std").value_or(0.02);
  keys.only("do_layer_norm_before", true);
  keys.only("_remove_final_layer_norm", false);
  c.norm_weight = c.norm_bias = keys.boolean("layer_norm_elementwise_affine").value_or(true);
  const std::int64_t width = keys.integer("word_embed_proj_dim", 1).value_or(c.hidden_size);
  require<ConfigError>(
      width == c.hidden_size,
      "config.json: word_embed_proj_dim {} with hidden_size {} (opt-350m) is not supported, only "
      "embeddings as wide as the layers",
      width, c.hidden_size);
  require<ConfigError>(
      keys.number("layerdrop").value_or(0) == 0,
      "config.json: layerdrop, which drops whole layers in training, is not supported; set it to 0");
}

void write_opt(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  json["vocab_size"] = spec.vocabulary;
  json["hidden_size"] = json["word_embed_proj_dim"] = c.hidden_size;
  json["num_hidden_layers"] = c.num_layers;
  json["num_attention_heads"] = c.num_attention_heads;
  json["ffn_dim"] = c.ffn_size();
  json["max_position_embeddings"] = c.max_positions();
  json["activation_function"] = activation_name(c.activation);
  json["enable_bias"] = c.bias == BiasKind::kAll;
  json["dropout"] = c.hidden_dropout;
  json["attention_dropout"] = c.attention_dropout;
  json["init_std"] = c.init_method_std;
  json["layerdrop"] = 0.0;
  json["do_layer_norm_before"] = true;
  json["layer_norm_elementwise_affine"] = c.norm_weight;
  json["_remove_final_layer_norm"] = false;
}

NameMap opt_names() {
  return {.prefix = "model.",
          .rules = {{"model.decoder.embed_tokens", {"embedding.tokens"}},
                    {"model.decoder.embed_positions", {"embedding.positions"}},
                    {"model.decoder.final_layer_norm", {"final_norm"}},
                    {"lm_head", {"head"}},
                    {"model.decoder.layers.{}.self_attn_layer_norm", {"layers.{}.norm1"}},
                    {"model.decoder.layers.{}.self_attn.q_proj", {"layers.{}.attention.q"}},
                    {"model.decoder.layers.{}.self_attn.k_proj", {"layers.{}.attention.k"}},
                    {"model.decoder.layers.{}.self_attn.v_proj", {"layers.{}.attention.v"}},
                    {"model.decoder.layers.{}.self_attn.out_proj", {"layers.{}.attention.out"}},
                    {"model.decoder.layers.{}.final_layer_norm", {"layers.{}.norm2"}},
                    {"model.decoder.layers.{}.fc1", {"layers.{}.mlp.up"}},
                    {"model.decoder.layers.{}.fc2", {"layers.{}.mlp.down"}}}};
}

}  // namespace

const Family kOpt{"opt", "OPTForCausalLM", read_opt, write_opt, opt_names};

}  // namespace stoa::model::huggingface
