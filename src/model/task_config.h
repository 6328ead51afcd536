// What the head of a model predicts, whatever kind of model it is.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/schema.h"

namespace stoa::model {

// kLanguageModel: tokens of text (the next one, masked ones or those of a target, by the kind of model).
// kEmbedding: a vector per text, trained on pairs of texts (docs/tuning.md, "Embedding models"). The others
// are trained on labelled text (docs/encoders.md, "Fine-tuning").
enum class Task {
  kLanguageModel,
  kSequenceClassification,
  kTokenClassification,
  kQuestionAnswering,
  kEmbedding
};
std::span<const config::EnumName<Task>> enum_names(Task);

// What becomes the vector of a text: the mean of its tokens' states, or the state of one of them.
enum class Pooling : std::uint8_t { kMean, kFirstToken, kLastToken };
std::span<const config::EnumName<Pooling>> enum_names(Pooling);

struct TaskConfig {
  Task type = Task::kLanguageModel;
  std::vector<std::string> labels;           // names of the classes of a classification, in order
  std::optional<double> classifier_dropout;  // null: hidden_dropout
  std::optional<Pooling> pooling;            // of an embedding; null: ModelConfig::pooling()

  bool labelled() const { return type != Task::kLanguageModel; }
  bool classifies() const {  // labels are the names of the classes
    return type == Task::kSequenceClassification || type == Task::kTokenClassification;
  }
  bool embeds() const { return type == Task::kEmbedding; }
  // A row has a single label; otherwise every token has its own.
  bool one_label_per_row() const {
    return type == Task::kSequenceClassification || type == Task::kQuestionAnswering || embeds();
  }
  // One number per row instead of classes.
  bool regression() const { return type == Task::kSequenceClassification && labels.size() == 1; }
  // Columns of the head's logits; 0 if they are over the vocabulary, or if there are none.
  std::int64_t classes() const;
};

void declare_task(config::Section<TaskConfig>& s);

// ConfigError: labels or a dropout that the task does not have.
void validate(const TaskConfig& c);

}  // namespace stoa::model
