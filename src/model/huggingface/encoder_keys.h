// Keys of the heads of encoders, which their families share.
#pragma once

#include "model/huggingface/family.h"

namespace stoa::model::huggingface {

// What the first name of `architectures` ("BertForMaskedLM") has beside the encoder `name` ("Bert"): the
// head, names of classes, dropout before them. `sentences`: the family has a head of the sentence question.
// `problem_type` but single_label_classification, and architectures that are not known, are ConfigErrors.
void read_encoder_head(JsonKeys& keys, ModelConfig& config, std::string_view name, bool sentences);
// architectures, and what a classification's head needs.
void write_encoder_head(const BertConfig& bert, Json& json, std::string_view name);
// Of another labelled task than the model's, where files name heads "classifier" and "qa_outputs".
bool is_of_other_head(std::string_view name, const BertConfig& bert);

}  // namespace stoa::model::huggingface
