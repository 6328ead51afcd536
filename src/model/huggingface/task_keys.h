// Heads of labelled tasks in Hugging Face files: the keys of config.json, and for decoders the names of their
// classes and tensors.
#pragma once

#include <string_view>

#include "model/huggingface/family.h"

namespace stoa::model::huggingface {

// What follows a model's name in `architectures` ("ForSequenceClassification"); "" for language models.
std::string_view task_suffix(Task task);
// The task of an architecture by the end of its name; kLanguageModel: it has no head of a labelled task.
Task task_of_architecture(std::string_view architecture);

// Names of the classes (id2label, num_labels; LABEL_0, LABEL_1 ... as transformers calls them) and dropout of
// config.task.type, a classification. ConfigError: a `problem_type` other than single_label_classification,
// or regression of one label.
void read_classes(JsonKeys& keys, TaskConfig& task);
void write_classes(const TaskConfig& task, Json& json);

// Decoders. Whether transformers has a class of the family with the head of `task`.
bool has_head(const Family& family, Task task);
// The module of that head ("score"); "": there is none.
std::string_view head_layer(const Family& family, Task task);
// Where config.json names such a class: its task and classes. ConfigError: the family has no such head.
void read_decoder_task(JsonKeys& keys, const Family& family, ModelConfig& config);
// Gives a language model the head of another task; options of the head that it had go.
void set_task(ModelConfig& config, const TaskConfig& task);
// architectures and classes of a decoder with the head of a labelled task.
void write_decoder_task(const ModelConfig& config, const Family& family, Json& json);
// The family's names with that of the head that the configuration has.
NameMap names_with_head(const Family& family, const ModelConfig& config);

}  // namespace stoa::model::huggingface
