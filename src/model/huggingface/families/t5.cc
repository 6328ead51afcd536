// T5 1.0 and 1.1 (1910.10683, 2002.05202), mT5 (2010.11934), umT5 (2305.16958): encoder-decoders with
// relative-position biases, in umT5 separate for each layer.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

// In these models "gated-gelu" is the tanh form, despite its name.
Activation activation_of(const std::string& name) {
  constexpr std::string_view kGated = "gated-";
  if (!name.starts_with(kGated)) return plain_activation(name);
  const std::string gate = name.substr(kGated.size());
  return gate == "gelu" ? Activation::kGegluTanh : gated_activation(gate);
}
std::string projection_of(Activation activation) {
  if (activation == Activation::kGegluTanh) return "gated-gelu";
  return std::string(is_gated(activation) ? "gated-" : "") + activation_name(activation);
}

void read_encoder_decoder(JsonKeys& keys, ModelConfig& c, bool first_version) {
  c.kind = ModelKind::kT5;
  c.vocab_size = keys.integer("vocab_size", 1).value_or(first_version ? 32128 : 250112);
  c.hidden_size = keys.integer("d_model", 1).value_or(512);
  c.kv_channels = keys.integer("d_kv", 1).value_or(64);
  c.ffn_hidden_size = keys.integer("d_ff", 1).value_or(first_version ? 2048 : 1024);
  const std::int64_t layers = keys.integer("num_layers", 1).value_or(first_version ? 6 : 8);
  c.num_layers = layers + keys.integer("num_decoder_layers", 1).value_or(layers);
  c.t5.encoder_layers = layers;
  c.num_attention_heads = keys.integer("num_heads", 1).value_or(first_version ? 8 : 6);
  c.position_embedding_type = PositionEmbedding::kRelative;
  c.t5.relative_attention_num_buckets = keys.integer("relative_attention_num_buckets", 2).value_or(32);
  c.t5.relative_attention_max_distance = keys.integer("relative_attention_max_distance", 2).value_or(128);
  c.normalization = Normalization::kRmsNorm;
  c.layernorm_epsilon = keys.number("layer_norm_epsilon").value_or(1e-6);
  c.activation =
      activation_of(keys.text("feed_forward_proj").value_or(first_version ? "relu" : "gated-gelu"));
  c.bias = BiasKind::kNone;
  c.hidden_dropout = c.attention_dropout = c.embedding_dropout = keys.number("dropout_rate").value_or(0.1);
  // T5 1.0 is tied and its outputs are scaled; 1.1 and mT5 are neither, and their files say so. transformers
  // 5 writes every model that it initialises as tied, and distinguishes T5's versions by whether outputs are
  // scaled.
  const bool tied = keys.boolean("tie_word_embeddings").value_or(true);
  const bool scaled = keys.boolean("scale_decoder_outputs").value_or(tied);
  c.share_embeddings_and_output_weights = tied;
  c.t5.scale_decoder_outputs = first_version && tied && scaled;
  // What follows from the others, or concerns generation and other tasks.
  for (const char* key :
       {"dense_act_fn", "is_gated_act", "is_encoder_decoder", "initializer_factor", "classifier_dropout",
        "n_positions", "output_past", "task_specific_params", "tokenizer_class", "is_decoder"})
    keys.ignore(key);
}
void read_t5(JsonKeys& keys, ModelConfig& c) { read_encoder_decoder(keys, c, true); }
void read_mt5(JsonKeys& keys, ModelConfig& c) { read_encoder_decoder(keys, c, false); }
// Outputs are scaled if the head is tied; the file's own key is ignored.
void read_umt5(JsonKeys& keys, ModelConfig& c) {
  read_encoder_decoder(keys, c, false);
  c.t5.relative_bias_per_layer = true;
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(true);
  c.t5.scale_decoder_outputs = c.share_embeddings_and_output_weights;
  keys.ignore("scalable_attention");  // of the published files, without effect in transformers
}

void write_t5(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  const std::string projection = projection_of(c.activation);
  json["vocab_size"] = spec.vocabulary;
  json["d_model"] = c.hidden_size;
  json["d_kv"] = c.head_size();
  json["d_ff"] = c.ffn_size();
  json["num_layers"] = c.encoder_layers();
  json["num_decoder_layers"] = c.num_layers - c.encoder_layers();
  json["num_heads"] = c.num_attention_heads;
  json["relative_attention_num_buckets"] = c.t5.relative_attention_num_buckets;
  json["relative_attention_max_distance"] = c.t5.relative_attention_max_distance;
  json["layer_norm_epsilon"] = c.layernorm_epsilon;
  json["feed_forward_proj"] = projection;
  json["dropout_rate"] = c.hidden_dropout;
  json["is_encoder_decoder"] = true;
  json["decoder_start_token_id"] = 0;
  json["tie_word_embeddings"] = c.share_embeddings_and_output_weights;
  json["scale_decoder_outputs"] = c.t5.scale_decoder_outputs;
}

bool is_copy(std::string_view name, const ModelConfig&) {
  return name == "encoder.embed_tokens.weight" || name == "decoder.embed_tokens.weight" ||
         name.ends_with("EncDecAttention.relative_attention_bias.weight");
}

bool unscaled(const ModelConfig& c) { return !c.t5.scale_decoder_outputs; }

NameMap t5_names() {
  return {
      .prefix = "",
      .rules = {{"shared", {"embedding.tokens"}},
                {"lm_head", {"head"}},
                {"encoder.block.0.layer.0.SelfAttention.relative_attention_bias", {"encoder.relative_bias"}},
                {"decoder.block.0.layer.0.SelfAttention.relative_attention_bias", {"decoder.relative_bias"}},
                {"encoder.final_layer_norm", {"encoder.final_norm"}},
                {"decoder.final_layer_norm", {"final_norm"}},
                {"encoder.block.{}.layer.0.SelfAttention.q", {"encoder.{}.attention.q"}},
                {"encoder.block.{}.layer.0.SelfAttention.k", {"encoder.{}.attention.k"}},
                {"encoder.block.{}.layer.0.SelfAttention.v", {"encoder.{}.attention.v"}},
                {"encoder.block.{}.layer.0.SelfAttention.o", {"encoder.{}.attention.out"}},
                {"encoder.block.{}.layer.0.layer_norm", {"encoder.{}.norm1"}},
                {"encoder.block.{}.layer.1.DenseReluDense.wi_0", {"encoder.{}.mlp.gate"}},
                {"encoder.block.{}.layer.1.DenseReluDense.wi_1", {"encoder.{}.mlp.up"}},
                {"encoder.block.{}.layer.1.DenseReluDense.wo", {"encoder.{}.mlp.down"}},
                {"encoder.block.{}.layer.1.DenseReluDense.wi", {"encoder.{}.dense.up"}},
                {"encoder.block.{}.layer.1.DenseReluDense.wo", {"encoder.{}.dense.down"}},
                {"encoder.block.{}.layer.1.layer_norm", {"encoder.{}.norm2"}},
                {"decoder.block.{}.layer.0.SelfAttention.q", {"decoder.{}.attention.q"}},
                {"decoder.block.{}.layer.0.SelfAttention.k", {"decoder.{}.attention.k"}},
                {"decoder.block.{}.layer.0.SelfAttention.v", {"decoder.{}.attention.v"}},
                {"decoder.block.{}.layer.0.SelfAttention.o", {"decoder.{}.attention.out"}},
                {"decoder.block.{}.layer.0.layer_norm", {"decoder.{}.norm1"}},
                {"decoder.block.{}.layer.1.EncDecAttention.q", {"decoder.{}.cross_attention.q"}},
                {"decoder.block.{}.layer.1.EncDecAttention.k", {"decoder.{}.cross_attention.k"}},
                {"decoder.block.{}.layer.1.EncDecAttention.v", {"decoder.{}.cross_attention.v"}},
                {"decoder.block.{}.layer.1.EncDecAttention.o", {"decoder.{}.cross_attention.out"}},
                {"decoder.block.{}.layer.1.layer_norm", {"decoder.{}.cross_norm"}},
                {"decoder.block.{}.layer.2.DenseReluDense.wi_0", {"decoder.{}.mlp.gate"}},
                {"decoder.block.{}.layer.2.DenseReluDense.wi_1", {"decoder.{}.mlp.up"}},
                {"decoder.block.{}.layer.2.DenseReluDense.wo", {"decoder.{}.mlp.down"}},
                {"decoder.block.{}.layer.2.DenseReluDense.wi", {"decoder.{}.dense.up"}},
                {"decoder.block.{}.layer.2.DenseReluDense.wo", {"decoder.{}.dense.down"}},
                {"decoder.block.{}.layer.2.layer_norm", {"decoder.{}.norm2"}}},
      .needless = is_copy,
      .head_may_untie = unscaled};
}

NameMap umt5_names() {
  NameMap out = t5_names();
  for (const bool encoder : {true, false}) {
    NameRule rule;
    rule.file = encoder ? "encoder.block.{}.layer.0.SelfAttention.relative_attention_bias"
                        : "decoder.block.{}.layer.0.SelfAttention.relative_attention_bias";
    rule.parts = {encoder ? "encoder.{}.relative_bias" : "decoder.{}.relative_bias"};
    out.rules.push_back(std::move(rule));
  }
  return out;
}

}  // namespace

const Family kT5{"t5", "T5ForConditionalGeneration", read_t5, write_t5, t5_names};
const Family kMt5{"mt5", "MT5ForConditionalGeneration", read_mt5, write_t5, t5_names};
const Family kUmt5{"umt5", "UMT5ForConditionalGeneration", read_umt5, write_t5, umt5_names};

}  // namespace stoa::model::huggingface
