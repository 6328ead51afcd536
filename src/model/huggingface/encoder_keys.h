// Keys of encoders, which their families share.
#pragma once

#include "model/huggingface/family.h"

namespace stoa::model::huggingface {

struct EncoderDefaults {
  std::int64_t vocabulary, positions, types;
  double epsilon;
  std::int64_t hidden = 768, heads = 12, ffn = 3072;
};

// BERT's keys, but its head's.
void read_encoder_keys(JsonKeys& keys, ModelConfig& config, const EncoderDefaults& defaults);
// BERT's keys, and those of the head of an encoder `name` ("Bert").
void write_encoder_keys(const Gpt& gpt, Json& json, std::string_view name);
// What the first name of `architectures` ("BertForMaskedLM") has beside the encoder `name` ("Bert"): the
// head, names of classes, dropout before them. `sentences`: the family has a head of the sentence question.
// `problem_type` but single_label_classification, and architectures that are not known, are ConfigErrors.
void read_encoder_head(JsonKeys& keys, ModelConfig& config, std::string_view name, bool sentences);
// architectures, and what a classification's head needs.
void write_encoder_head(const BertConfig& bert, Json& json, std::string_view name);
// Of another labelled task than the model's, where files name heads "classifier" and "qa_outputs".
bool is_of_other_head(std::string_view name, const BertConfig& bert);

}  // namespace stoa::model::huggingface
