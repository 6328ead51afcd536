// BERT (Devlin et al. 2018) and RoBERTa (Liu et al. 2019): post-norm encoders with a masked language model
// head, or the head of a supervised task. RoBERTa counts positions from pad_token_id + 1 and has no sentence
// head.
#include <algorithm>

#include "model/huggingface/encoder_keys.h"
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"
#include "model/huggingface/task_keys.h"

namespace stoa::model::huggingface {
namespace {

std::string_view head_name(const ModelConfig& c) {
  if (c.task.embeds()) return "Model";
  if (c.task.labelled()) return task_suffix(c.task.type);
  return c.bert.binary_head ? "ForPreTraining" : c.bert.lm_head ? "ForMaskedLM" : "Model";
}

}  // namespace

void read_encoder_keys(JsonKeys& keys, ModelConfig& c, const EncoderDefaults& defaults) {
  c.kind = ModelKind::kBert;
  c.vocab_size = keys.integer("vocab_size", 1).value_or(defaults.vocabulary);
  c.hidden_size = keys.integer("hidden_size", 1).value_or(defaults.hidden);
  c.num_layers = keys.integer("num_hidden_layers", 1).value_or(defaults.layers);
  c.num_attention_heads = keys.integer("num_attention_heads", 1).value_or(defaults.heads);
  c.ffn_hidden_size = keys.integer("intermediate_size", 1).value_or(defaults.ffn);
  c.max_position_embeddings = keys.integer("max_position_embeddings", 1).value_or(defaults.positions);
  c.bert.num_token_types = keys.integer("type_vocab_size", 1).value_or(defaults.types);
  c.position_embedding_type = PositionEmbedding::kLearnedAbsolute;
  c.normalization = Normalization::kLayerNorm;
  c.layernorm_epsilon = keys.number("layer_norm_eps").value_or(defaults.epsilon);
  c.activation = plain_activation(keys.text("hidden_act").value_or("gelu"));
  c.bias = BiasKind::kAll;
  c.share_embeddings_and_output_weights = true;
  c.hidden_dropout = c.embedding_dropout = keys.number("hidden_dropout_prob").value_or(0.1);
  c.attention_dropout = keys.number("attention_probs_dropout_prob").value_or(0.1);
  const std::string positions = keys.text("position_embedding_type").value_or("absolute");
  require<ConfigError>(positions == "absolute",
                       "config.json: position_embedding_type '{}' is not supported, expected absolute",
                       positions);
  keys.only("tie_word_embeddings", true);
  keys.only("is_decoder", false);
  keys.only("add_cross_attention", false);
  keys.ignore("classifier_dropout");
}

void read_encoder_head(JsonKeys& keys, ModelConfig& c, std::string_view name, bool sentences) {
  const std::vector<std::string> all = keys.texts("architectures").value_or(std::vector<std::string>());
  const std::string first = all.empty() ? fmt::format("{}ForMaskedLM", name) : all.front();
  c.bert.lm_head = first == fmt::format("{}ForMaskedLM", name);
  c.bert.binary_head = sentences && first == fmt::format("{}ForPreTraining", name);
  c.bert.lm_head = c.bert.lm_head || c.bert.binary_head;
  if (first.starts_with(name) && first == fmt::format("{}{}", name, task_suffix(task_of_architecture(first))))
    c.task.type = task_of_architecture(first);
  require<ConfigError>(
      c.bert.lm_head || c.task.labelled() || first == fmt::format("{}Model", name),
      "config.json: architecture '{}' is not supported; known: {}Model, {}ForMaskedLM{}, and {}For "
      "SequenceClassification, TokenClassification, QuestionAnswering",
      first, name, name, sentences ? fmt::format(", {}ForPreTraining", name) : "", name);
  if (c.task.classifies()) read_classes(keys, c.task);
}

void write_encoder_head(const ModelConfig& c, Json& json, std::string_view name) {
  json["architectures"] = {fmt::format("{}{}", name, head_name(c))};
  write_classes(c.task, json);
}

bool is_of_other_head(std::string_view name, const TaskConfig& task) {
  const bool classes = name.starts_with("classifier."), spans = name.starts_with("qa_outputs.");
  return task.embeds()                           ? classes || spans
         : task.type == Task::kQuestionAnswering ? classes
                                                 : task.labelled() && spans;
}

void write_encoder_keys(const ModelSpec& spec, Json& json, std::string_view name) {
  const ModelConfig& c = spec.config;
  write_encoder_head(c, json, name);
  json["vocab_size"] = spec.vocabulary;
  json["hidden_size"] = c.hidden_size;
  json["num_hidden_layers"] = c.num_layers;
  json["num_attention_heads"] = c.num_attention_heads;
  json["intermediate_size"] = c.ffn_size();
  json["hidden_act"] = activation_name(c.activation);
  json["layer_norm_eps"] = c.layernorm_epsilon;
  json["max_position_embeddings"] = c.max_positions() + c.bert.first_position;
  json["type_vocab_size"] = c.bert.num_token_types;
  json["hidden_dropout_prob"] = c.hidden_dropout;
  json["attention_probs_dropout_prob"] = c.attention_dropout;
  json["position_embedding_type"] = "absolute";
}

void add_bert_heads(NameMap& names) {
  names.rules.push_back({"cls.predictions.transform.dense", {"head.dense"}});
  names.rules.push_back({"cls.predictions.transform.LayerNorm", {"head.norm"}});
  names.rules.push_back({"cls.predictions", {"head"}});
  names.rules.push_back({"bert.pooler.dense", {"head.pooler"}});
  names.rules.push_back({"cls.seq_relationship", {"head.sentence"}});
  names.rules.push_back({"classifier", {"head.classes"}});
  names.rules.push_back({"classifier", {"head.tags"}});
  names.rules.push_back({"qa_outputs", {"head.span"}});
}

bool is_needless_in_bert(std::string_view name, const ModelConfig& c) {
  const bool pooled = c.judges_sentences() || c.task.type == Task::kSequenceClassification;
  return name == "embeddings.position_ids" || name.starts_with("cls.predictions.decoder.") ||
         (!pooled && name.starts_with("pooler.")) ||
         (!c.judges_sentences() && name.starts_with("cls.seq_relationship.")) ||
         ((!c.bert.lm_head || c.task.labelled()) && name.starts_with("cls.")) ||
         is_of_other_head(name, c.task);
}

namespace {

// Literals joined when the program is compiled: rules hold views.
template <std::size_t N>
struct Literal {
  char text[N]{};
  constexpr Literal(const char (&given)[N]) { std::copy_n(given, N, text); }
};
template <Literal kPrefix, Literal kRest>
struct Joined {
  char text[sizeof(kPrefix.text) + sizeof(kRest.text) - 1]{};
  constexpr Joined() {
    std::copy_n(kRest.text, sizeof(kRest.text), std::copy_n(kPrefix.text, sizeof(kPrefix.text) - 1, text));
  }
};
template <Literal kPrefix, Literal kRest>
constexpr Joined<kPrefix, kRest> kJoined{};
template <Literal kPrefix, Literal kRest>
constexpr std::string_view joined() {
  return {kJoined<kPrefix, kRest>.text, sizeof(kJoined<kPrefix, kRest>.text) - 1};
}

template <Literal kPrefix>
std::vector<NameRule> encoder_rules() {
  return {{joined<kPrefix, "embeddings.word_embeddings">(), {"embedding.tokens"}},
          {joined<kPrefix, "embeddings.position_embeddings">(), {"embedding.positions"}},
          {joined<kPrefix, "embeddings.token_type_embeddings">(), {"embedding.types"}},
          {joined<kPrefix, "embeddings.LayerNorm">(), {"embedding.norm"}},
          {joined<kPrefix, "encoder.layer.{}.attention.self.query">(), {"layers.{}.attention.q"}},
          {joined<kPrefix, "encoder.layer.{}.attention.self.key">(), {"layers.{}.attention.k"}},
          {joined<kPrefix, "encoder.layer.{}.attention.self.value">(), {"layers.{}.attention.v"}},
          {joined<kPrefix, "encoder.layer.{}.attention.output.dense">(), {"layers.{}.attention.out"}},
          {joined<kPrefix, "encoder.layer.{}.attention.output.LayerNorm">(), {"layers.{}.norm1"}},
          {joined<kPrefix, "encoder.layer.{}.intermediate.dense">(), {"layers.{}.mlp.up"}},
          {joined<kPrefix, "encoder.layer.{}.output.dense">(), {"layers.{}.mlp.down"}},
          {joined<kPrefix, "encoder.layer.{}.output.LayerNorm">(), {"layers.{}.norm2"}}};
}

void read_bert(JsonKeys& keys, ModelConfig& c) {
  read_encoder_keys(keys, c, {30522, 512, 2, 1e-12});
  read_encoder_head(keys, c, "Bert", true);
}
void write_bert(const ModelSpec& spec, Json& json) { write_encoder_keys(spec, json, "Bert"); }

NameMap bert_names() {
  NameMap out{.prefix = "bert.", .rules = encoder_rules<"bert.">(), .needless = is_needless_in_bert};
  add_bert_heads(out);
  return out;
}

void read_roberta_as(JsonKeys& keys, ModelConfig& c, std::string_view name, const EncoderDefaults& defaults) {
  read_encoder_keys(keys, c, defaults);
  read_encoder_head(keys, c, name, false);
  c.bert.first_position = keys.integer("pad_token_id", 0).value_or(1) + 1;
  *c.max_position_embeddings -= c.bert.first_position;
  require<ConfigError>(*c.max_position_embeddings >= 1,
                       "config.json: max_position_embeddings leaves no position beyond pad_token_id {}",
                       c.bert.first_position - 1);
}
void read_roberta(JsonKeys& keys, ModelConfig& c) {
  read_roberta_as(keys, c, "Roberta", {50265, 512, 2, 1e-12});
}
void write_roberta_as(const ModelSpec& spec, Json& json, std::string_view name) {
  write_encoder_keys(spec, json, name);
  json["pad_token_id"] = spec.config.bert.first_position - 1;
}
void write_roberta(const ModelSpec& spec, Json& json) { write_roberta_as(spec, json, "Roberta"); }

// XLM-RoBERTa (1911.02116) and CamemBERT (1911.03894): RoBERTa with another vocabulary.
constexpr EncoderDefaults kRelatives{30522, 512, 2, 1e-12};
void read_xlm_roberta(JsonKeys& keys, ModelConfig& c) { read_roberta_as(keys, c, "XLMRoberta", kRelatives); }
void write_xlm_roberta(const ModelSpec& spec, Json& json) { write_roberta_as(spec, json, "XLMRoberta"); }
void read_camembert(JsonKeys& keys, ModelConfig& c) { read_roberta_as(keys, c, "Camembert", kRelatives); }
void write_camembert(const ModelSpec& spec, Json& json) { write_roberta_as(spec, json, "Camembert"); }

bool is_needless_in_roberta(std::string_view name, const ModelConfig& c) {
  return name == "embeddings.position_ids" || name.starts_with("lm_head.decoder.") ||
         name.starts_with("pooler.") ||
         ((!c.bert.lm_head || c.task.labelled()) && name.starts_with("lm_head.")) ||
         is_of_other_head(name, c.task);
}

NameMap roberta_names() {
  NameMap out{.prefix = "roberta.", .rules = encoder_rules<"roberta.">(), .needless = is_needless_in_roberta};
  out.rules.push_back({"lm_head.dense", {"head.dense"}});
  out.rules.push_back({"lm_head.layer_norm", {"head.norm"}});
  out.rules.push_back({"lm_head", {"head"}});
  out.rules.push_back({"classifier.dense", {"head.pooler"}});
  out.rules.push_back({"classifier.out_proj", {"head.classes"}});
  out.rules.push_back({"classifier", {"head.tags"}});
  out.rules.push_back({"qa_outputs", {"head.span"}});
  return out;
}

}  // namespace

const Family kBert{"bert", "BertForPreTraining", read_bert, write_bert, bert_names};
const Family kRoberta{"roberta", "RobertaForMaskedLM", read_roberta, write_roberta, roberta_names};
const Family kXlmRoberta{"xlm-roberta", "XLMRobertaForMaskedLM", read_xlm_roberta, write_xlm_roberta,
                         roberta_names};
const Family kCamembert{"camembert", "CamembertForMaskedLM", read_camembert, write_camembert, roberta_names};

}  // namespace stoa::model::huggingface
