#include "model/bert_config.h"

#include <array>

#include "model/config.h"

namespace stoa::model {

std::span<const config::EnumName<PoolerActivation>> enum_names(PoolerActivation) {
  static constexpr std::array<config::EnumName<PoolerActivation>, 3> kNames{{
      {"tanh", PoolerActivation::kTanh},
      {"relu", PoolerActivation::kRelu},
      {"gelu", PoolerActivation::kGelu},
  }};
  return kNames;
}

void declare_bert(config::Section<BertConfig>& s) {
  using C = BertConfig;
  s.field("num_token_types", &C::num_token_types)
      .range(0, 65536)
      .help("Number of token types, which distinguish the segments of a pair; 0: none.");
  s.field("lm_head", &C::lm_head)
      .help(
          "Task language_model: the head that predicts masked tokens; without it the model can only embed.");
  s.field("binary_head", &C::binary_head)
      .help("Task language_model: also train to predict whether the second segment follows the first.");
  s.field("first_position", &C::first_position)
      .range(0, 65536)
      .help("Row of the position table for the first token: 2 in RoBERTa.");
  s.field("pre_norm", &C::pre_norm)
      .help(
          "Norms before attention and MLP (none before the first attention), and one after the last layer "
          "(ModernBERT); false: norms after each residual addition (BERT).");
  s.field("embedding_norm", &C::embedding_norm)
      .help(
          "A norm of the embeddings. false, with pre_norm: none, and one before the first attention "
          "(Megatron-LM's BERT).");
  s.field("relative_attention_num_buckets", &C::relative_attention_num_buckets)
      .range(4, 65536)
      .help(
          "Buckets of a trained relative-position bias of attention scores, in addition to other positions "
          "(MPNet: 32). null: none.");
  s.field("classifier_bias", &C::classifier_bias)
      .help("Task language_model: the dense layer of the head has a bias (ModernBERT's has none).");
  s.field("head_activation", &C::head_activation)
      .derived("that of the layers; with first_position: gelu")
      .help(
          "Task language_model: activation of the head's dense layer, not a gated one (Megatron-LM: gelu).");
  s.field("pooler_activation", &C::pooler_activation)
      .help(
          "Task sequence_classification: activation of the pooler, before the classes (BERT: tanh, "
          "DistilBERT: relu).");
}

}  // namespace stoa::model
