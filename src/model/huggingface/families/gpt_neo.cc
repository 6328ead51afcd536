// GPT-Neo (Black et al. 2021): GPT-2 with windows in some layers, unscaled attention scores, no bias of q, k,
// v.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

// attention_types: lists of kinds and how often each list is repeated; attention_layers: the same written
// out.
std::vector<std::string> kinds_of_layers(JsonKeys& keys, std::int64_t layers) {
  const auto written = keys.texts("attention_layers");
  const nlohmann::json* types = keys.array("attention_types");
  std::vector<std::string> out;
  for (const auto& item : types ? *types : nlohmann::json::array({{{"global", "local"}, 12}})) {
    const bool pair =
        item.is_array() && item.size() == 2 && item[0].is_array() && item[1].is_number_integer();
    const std::int64_t times = pair ? item[1].get<std::int64_t>() : -1;
    require<ConfigError>(
        times >= 0 && times <= layers,
        "config.json: attention_types: expected pairs of a list of kinds and how often it is repeated, "
        "as in [[[\"global\", \"local\"], 12]]");
    for (std::int64_t i = 0; i < times; ++i)
      for (const auto& kind : item[0]) out.push_back(kind.is_string() ? kind.get<std::string>() : "");
  }
  if (!types && written) out = *written;
  require<ConfigError>(static_cast<std::int64_t>(out.size()) == layers,
                       "config.json: attention_types has {} entries for {} layers", out.size(), layers);
  for (const std::string& kind : out)
    require<ConfigError>(kind == "global" || kind == "local",
                         "config.json: attention_types: '{}' is not known, expected global or local", kind);
  return out;
}

void read_gpt_neo(JsonKeys& keys, ModelConfig& c) {
  c.vocab_size = keys.integer("vocab_size", 1).value_or(50257);
  c.hidden_size = keys.integer("hidden_size", 1).value_or(2048);
  c.num_layers = keys.integer("num_layers", 1).value_or(24);
  c.num_attention_heads = keys.integer("num_heads", 1).value_or(16);
  c.ffn_hidden_size = keys.integer("intermediate_size", 1).value_or(4 * c.hidden_size);
  c.max_position_embeddings = keys.integer("max_position_embeddings", 1).value_or(2048);
  c.position_embedding_type = PositionEmbedding::kLearnedAbsolute;
  c.normalization = Normalization::kLayerNorm;
  c.layernorm_epsilon = keys.number("layer_norm_epsilon").value_or(1e-5);
  c.activation = plain_activation(keys.text("activation_function").value_or("gelu_new"));
  set_biases(c, false, true, true);
  c.softmax_scale = 1;
  c.share_embeddings_and_output_weights = keys.boolean("tie_word_embeddings").value_or(true);
  c.hidden_dropout = keys.number("resid_dropout").value_or(0);
  c.attention_dropout = keys.number("attention_dropout").value_or(0);
  c.embedding_dropout = keys.number("embed_dropout").value_or(0);
  keys.ignore("classifier_dropout");
  const std::int64_t window = keys.integer("window_size", 1).value_or(256);
  const auto kinds = kinds_of_layers(keys, c.num_layers);
  for (std::int64_t l = 0; l < c.num_layers; ++l)
    if (kinds[static_cast<std::size_t>(l)] == "local") c.window_layers.push_back(l);
  if (!c.window_layers.empty()) c.window_size = window;
}

void write_gpt_neo(const ModelSpec& spec, Json& json) {
  const ModelConfig& c = spec.config;
  json["vocab_size"] = spec.vocabulary;
  json["hidden_size"] = c.hidden_size;
  json["num_layers"] = c.num_layers;
  json["num_heads"] = c.num_attention_heads;
  json["intermediate_size"] = c.ffn_size();
  json["max_position_embeddings"] = c.max_positions();
  json["layer_norm_epsilon"] = c.layernorm_epsilon;
  json["activation_function"] = activation_name(c.activation);
  json["resid_dropout"] = c.hidden_dropout;
  json["attention_dropout"] = c.attention_dropout;
  json["embed_dropout"] = c.embedding_dropout;
  json["window_size"] = c.window_size.value_or(256);
  Json kinds = Json::array();
  for (std::int64_t l = 0; l < c.num_layers; ++l)
    kinds.push_back(layer_window(c, l) > 0 ? "local" : "global");
  json["attention_layers"] = kinds;
  json["attention_types"] = Json::array({Json::array({kinds, 1})});
}

// Buffers of older versions: causal masks.
bool is_mask_of_gpt_neo(std::string_view name, const ModelConfig&) {
  return name.ends_with(".attn.attention.bias") || name.ends_with(".attn.attention.masked_bias");
}

NameMap gpt_neo_names() {
  const auto rule = [](const char* file, const char* part) {
    return NameRule{.file = file, .parts = {part}};
  };
  return {.prefix = "transformer.",
          .rules = {rule("transformer.wte", "embedding.tokens"),
                    rule("transformer.wpe", "embedding.positions"), rule("transformer.ln_f", "final_norm"),
                    rule("lm_head", "head"), rule("transformer.h.{}.ln_1", "layers.{}.norm1"),
                    rule("transformer.h.{}.attn.attention.q_proj", "layers.{}.attention.q"),
                    rule("transformer.h.{}.attn.attention.k_proj", "layers.{}.attention.k"),
                    rule("transformer.h.{}.attn.attention.v_proj", "layers.{}.attention.v"),
                    rule("transformer.h.{}.attn.attention.out_proj", "layers.{}.attention.out"),
                    rule("transformer.h.{}.ln_2", "layers.{}.norm2"),
                    rule("transformer.h.{}.mlp.c_fc", "layers.{}.mlp.up"),
                    rule("transformer.h.{}.mlp.c_proj", "layers.{}.mlp.down")},
          .needless = is_mask_of_gpt_neo};
}

}  // namespace

const Family kGptNeo{"gpt_neo", "GPTNeoForCausalLM", read_gpt_neo, write_gpt_neo, gpt_neo_names};

}  // namespace stoa::model::huggingface
