// Keys of config.json and names of tensors that the encoder families share.
#pragma once

#include "model/huggingface/family.h"

namespace stoa::model::huggingface {

struct EncoderDefaults {
  std::int64_t vocabulary, positions, types;
  double epsilon;
  std::int64_t hidden = 768, heads = 12, ffn = 3072, layers = 12;
};

// BERT's keys without those of the head.
void read_encoder_keys(JsonKeys& keys, ModelConfig& config, const EncoderDefaults& defaults);
// BERT's keys, with those of the head of encoder `name` ("Bert").
void write_encoder_keys(const ModelSpec& spec, Json& json, std::string_view name);
// The head of encoder `name` ("Bert") by the first name of `architectures` ("BertForMaskedLM"): its task,
// class names and dropout. `sentences`: the family has a head that judges the order of two sentences.
// ConfigError: an unknown architecture, or a `problem_type` other than single_label_classification.
void read_encoder_head(JsonKeys& keys, ModelConfig& config, std::string_view name, bool sentences);
// architectures, and the keys of a classification head.
void write_encoder_head(const ModelConfig& config, Json& json, std::string_view name);
// Whether tensor `name` belongs to the head of another labelled task ("classifier", "qa_outputs").
bool is_of_other_head(std::string_view name, const TaskConfig& task);
// Adds the rules of BERT's heads ("cls.predictions", "bert.pooler", "classifier", ...).
void add_bert_heads(NameMap& names);
// Tensors of BERT's files that a model does not need: buffers; the decoder, which is tied; the pooler and
// heads that the model does not use.
bool is_needless_in_bert(std::string_view name, const ModelConfig& config);

}  // namespace stoa::model::huggingface
