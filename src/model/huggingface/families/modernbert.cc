// ModernBERT (2412.13663): a pre-norm encoder with rotary positions, gated MLPs, and two-sided windows in
// most layers, which have a separate rotary base.
#include "model/huggingface/encoder_keys.h"
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"
#include "model/huggingface/window_keys.h"

namespace stoa::model::huggingface {
namespace {

constexpr double kModernBase = 160000, kModernLocalBase = 10000;

// local_attention counts both sides: half of it before a token, half after.
void read_windows(JsonKeys& keys, ModelConfig& c) {
  const std::int64_t local = keys.integer("local_attention", 1).value_or(128);
  const std::int64_t period = keys.integer("global_attn_every_n_layers", 1).value_or(3);
  std::vector<std::string> kinds;
  for (std::int64_t l = 0; l < c.num_layers; ++l)
    kinds.push_back(l % period == 0 ? "full_attention" : "sliding_attention");
  kinds = keys.texts("layer_types").value_or(kinds);
  require<ConfigError>(static_cast<std::int64_t>(kinds.size()) == c.num_layers,
                       "config.json: layer_types has {} entries for {} layers", kinds.size(), c.num_layers);
  for (std::int64_t l = 0; l < c.num_layers; ++l) {
    const std::string& kind = kinds[static_cast<std::size_t>(l)];
    require<ConfigError>(kind == "full_attention" || kind == "sliding_attention",
                         "config.json: layer_types[{}] is '{}', expected full_attention or sliding_attention",
                         l, kind);
    if (kind == "sliding_attention") c.window_layers.push_back(l);
  }
  if (!c.window_layers.empty()) c.window_size = local / 2 + 1;
}

// Rotary bases of global layers and of those with a window; transformers 5.x nests them by kind of layer.
void read_bases(JsonKeys& keys, ModelConfig& c) {
  c.rotary_base = keys.number("global_rope_theta").value_or(kModernBase);
  double local = keys.number("local_rope_theta").value_or(kModernLocalBase);
  keys.ignore("rope_theta");
  require<ConfigError>(!keys.has("rope_scaling"),
                       "config.json: rope_scaling is not supported for modernbert, only null");
  keys.ignore("rope_scaling");
  if (const auto* both = keys.object("rope_parameters")) {
    JsonKeys kinds(*both, "rope_parameters.");
    const auto base_of = [&](const char* kind, double fallback) {
      const auto* object = kinds.object(kind);
      if (!object) return fallback;
      ModelConfig other = c;
      other.rotary_base = fallback;
      read_rope_parameters(*object, other, {});
      require<ConfigError>(other.rope_scaling.type == RopeScaling::kDefault,
                           "config.json: rope_parameters.{} is scaled; supported is rope_type default", kind);
      return other.rotary_base;
    };
    c.rotary_base = base_of("full_attention", c.rotary_base);
    local = base_of("sliding_attention", local);
    kinds.finish("modernbert");
  }
  if (c.window_size) c.rope_local_base_freq = local;
}

void read_modernbert(JsonKeys& keys, ModelConfig& c) {
  c.kind = ModelKind::kBert;
  c.vocab_size = keys.integer("vocab_size", 1).value_or(50368);
  c.hidden_size = keys.integer("hidden_size", 1).value_or(768);
  c.ffn_hidden_size = keys.integer("intermediate_size", 1).value_or(1152);
  c.num_layers = keys.integer("num_hidden_layers", 1).value_or(22);
  c.num_attention_heads = keys.integer("num_attention_heads", 1).value_or(12);
  c.max_position_embeddings = keys.integer("max_position_embeddings", 1).value_or(8192);
  c.bert.num_token_types = 0;
  c.bert.pre_norm = true;
  c.position_embedding_type = PositionEmbedding::kRope;
  c.normalization = Normalization::kLayerNorm;
  c.norm_bias = keys.boolean("norm_bias").value_or(false);
  c.layernorm_epsilon = keys.number("norm_eps").value_or(1e-5);
  keys.ignore("layer_norm_eps");  // in the first published files, duplicates norm_eps
  const std::string act = keys.text("hidden_activation").value_or("gelu");
  c.activation = gated_activation(act);
  require<ConfigError>(keys.text("classifier_activation").value_or("gelu") == act,
                       "config.json: classifier_activation other than hidden_activation {} is not supported",
                       act);
  c.bert.classifier_bias = keys.boolean("classifier_bias").value_or(false);
  const bool attention = keys.boolean("attention_bias").value_or(false);
  set_biases(c, attention, attention, keys.boolean("mlp_bias").value_or(false));
  keys.only("decoder_bias", true);
  keys.only("tie_word_embeddings", true);
  c.share_embeddings_and_output_weights = true;
  c.embedding_dropout = keys.number("embedding_dropout").value_or(0);
  for (const char* key : {"mlp_dropout", "attention_dropout"})
    require<ConfigError>(keys.number(key).value_or(0) == 0, "config.json: {} other than 0 is not supported",
                         key);
  read_windows(keys, c);
  read_bases(keys, c);
  for (const char* key :
       {"initializer_cutoff_factor", "classifier_dropout", "classifier_pooling", "cls_token_id",
        "deterministic_flash_attn", "sparse_prediction", "sparse_pred_ignore_index", "reference_compile",
        "repad_logits_with_grad", "position_embedding_type"})
    keys.ignore(key);
  read_encoder_head(keys, c, "ModernBert", false);
  require<ConfigError>(
      !c.task.labelled(),
      "config.json: the heads of labelled tasks of modernbert are not supported, only ModernBertForMaskedLM "
      "and ModernBertModel");
}

void write_modernbert(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  write_encoder_head(c, json, "ModernBert");
  json["vocab_size"] = spec.vocabulary;
  json["hidden_size"] = c.hidden_size;
  json["intermediate_size"] = c.ffn_size();
  json["num_hidden_layers"] = c.num_layers;
  json["num_attention_heads"] = c.num_attention_heads;
  json["max_position_embeddings"] = c.max_positions();
  json["norm_bias"] = c.norm_bias;
  json["norm_eps"] = c.layernorm_epsilon;
  json["hidden_activation"] = json["classifier_activation"] = activation_name(c.activation);
  json["classifier_bias"] = c.bert.classifier_bias;
  json["attention_bias"] = c.has_qkv_bias();
  json["mlp_bias"] = c.has_mlp_bias();
  json["decoder_bias"] = true;
  json["embedding_dropout"] = c.embedding_dropout;
  json["attention_dropout"] = json["mlp_dropout"] = 0.0;
  json["local_attention"] = 2 * (c.window_size.value_or(65) - 1);
  json["global_attn_every_n_layers"] = 3;  // 4.x, which knows no other pattern
  write_layer_types(c, json);
  json["global_rope_theta"] = c.rotary_base;
  json["local_rope_theta"] = c.rope_local_base_freq.value_or(kModernLocalBase);
  json["rope_parameters"] = {
      {"full_attention", {{"rope_type", "default"}, {"rope_theta", c.rotary_base}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", json["local_rope_theta"]}}}};
}

NameMap modernbert_names() {
  const auto rule = [](const char* file, const char* part) {
    return NameRule{.file = file, .parts = {part}};
  };
  return {.prefix = "model.",
          .rules = {rule("model.embeddings.tok_embeddings", "embedding.tokens"),
                    rule("model.embeddings.norm", "embedding.norm"),
                    rule("model.final_norm", "final_norm"),
                    rule("model.layers.{}.attn_norm", "layers.{}.norm1"),
                    {"model.layers.{}.attn.Wqkv",
                     {"layers.{}.attention.q", "layers.{}.attention.k", "layers.{}.attention.v"}},
                    rule("model.layers.{}.attn.Wo", "layers.{}.attention.out"),
                    rule("model.layers.{}.mlp_norm", "layers.{}.norm2"),
                    {"model.layers.{}.mlp.Wi", {"layers.{}.mlp.gate", "layers.{}.mlp.up"}},
                    rule("model.layers.{}.mlp.Wo", "layers.{}.mlp.down"),
                    rule("head.dense", "head.dense"),
                    rule("head.norm", "head.norm"),
                    rule("decoder", "head")},
          .needless = [](std::string_view name, const ModelConfig& config) {
            return name.ends_with("inv_freq") || name == "decoder.weight" ||
                   ((!config.bert.lm_head || config.task.embeds()) &&
                    (name.starts_with("head.") || name.starts_with("decoder.") ||
                     name.starts_with("classifier.")));
          }};
}

}  // namespace

const Family kModernBert{"modernbert", "ModernBertForMaskedLM", read_modernbert, write_modernbert,
                         modernbert_names};

}  // namespace stoa::model::huggingface
