#include "model/task_config.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace stoa::model {

std::span<const config::EnumName<Task>> enum_names(Task) {
  static constexpr std::array<config::EnumName<Task>, 6> kNames{{
      {"language_model", Task::kLanguageModel},
      {"sequence_classification", Task::kSequenceClassification},
      {"token_classification", Task::kTokenClassification},
      {"question_answering", Task::kQuestionAnswering},
      {"embedding", Task::kEmbedding},
      {"masked_lm", Task::kLanguageModel},  // its name in older configurations
  }};
  return kNames;
}

std::span<const config::EnumName<Pooling>> enum_names(Pooling) {
  static constexpr std::array<config::EnumName<Pooling>, 3> kNames{
      {{"mean", Pooling::kMean}, {"cls", Pooling::kFirstToken}, {"last", Pooling::kLastToken}}};
  return kNames;
}

std::int64_t TaskConfig::classes() const {
  if (type == Task::kLanguageModel || embeds()) return 0;
  // The logit of a token to begin the answer, and that to end it.
  return type == Task::kQuestionAnswering ? 2 : static_cast<std::int64_t>(labels.size());
}

void declare_task(config::Section<TaskConfig>& s) {
  using C = TaskConfig;
  s.field("task", &C::type)
      .alias("bert.task")
      .help(
          "What the head predicts: tokens of prepared text; from labelled text, the class of a text (or "
          "pair), the class of every word, or the position of an answer in a context (kind bert); from pairs "
          "of texts (objective.name contrastive), a vector per text.");
  s.field("labels", &C::labels)
      .alias("bert.labels")
      .help("Names of the classes of sequence_classification and token_classification, in order.");
  s.field("classifier_dropout", &C::classifier_dropout)
      .alias("bert.classifier_dropout")
      .range(0, 1)
      .derived("hidden_dropout")
      .help("Dropout before the classification layer.");
  s.field("pooling", &C::pooling)
      .derived("last with kind gpt, else mean")
      .help(
          "Task embedding: the vector of a text is the mean of its tokens' states, that of the first token "
          "(cls) or that of the last.");
}

void validate(const TaskConfig& c) {
  const bool classes = c.classifies();
  const auto found = static_cast<std::int64_t>(c.labels.size());
  require<ConfigError>(!classes || found >= (c.type == Task::kSequenceClassification ? 1 : 2),
                       "model.labels names {} classes, expected 2 or more, as in [negative, positive]",
                       found);
  require<ConfigError>(classes || found == 0,
                       "model.labels are the classes of task sequence_classification or "
                       "token_classification: give one of these, or leave them out");
  require<ConfigError>(classes || !c.classifier_dropout,
                       "model.classifier_dropout is for task sequence_classification or "
                       "token_classification: leave it out");
  require<ConfigError>(c.embeds() || !c.pooling, "model.pooling is for task embedding: leave it out");
  for (auto label = c.labels.begin(); label != c.labels.end(); ++label)
    require<ConfigError>(!label->empty() && std::find(c.labels.begin(), label, *label) == label,
                         "model.labels: '{}' is empty or appears twice", *label);
}

}  // namespace stoa::model
