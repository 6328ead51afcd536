// Answers of a model fine-tuned for a labelled task: the class of a text, the tags of its words, or the
// part of a context that answers a question.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "data/labelled_text.h"
#include "infer/encoder_rank.h"
#include "infer/question_windows.h"

namespace stoa::infer {

// The answer for a text or a pair of texts.
struct TextClass {
  std::vector<double> scores;  // probabilities of the labels; for regression only its value
  std::size_t best = 0;        // index of the most likely label
};

struct WordTags {
  struct Tag {
    std::size_t label;
    double probability;
  };
  struct Span {
    std::string type;
    std::size_t begin, end;  // words
    std::string text;        // the words that have a tag
  };
  std::vector<std::string> words;
  std::vector<std::optional<Tag>> tags;    // one per word; none: beyond the row's end, or without a token
  std::optional<std::vector<Span>> spans;  // where labels are B-X, I-X and O
};

struct QuestionAnswer {
  std::string id;  // of the question, if it has one
  struct Found {
    std::string text;
    std::int64_t begin;  // Unicode characters of the context before it
    double probability;
  };
  std::optional<Found> found;
};

using TaskAnswer = std::variant<TextClass, WordTags, QuestionAnswer>;

struct TaskOptions {
  std::int64_t max_length = 0;    // longer texts are truncated to this many tokens; 0: the model's limit
  std::int64_t doc_stride = 128;  // of questions: tokens between the windows of a long context
  bool allow_no_answer = false;   // return an empty answer if that is more likely
};

class TaskReader {
 public:
  using Emit = std::function<void(const TaskAnswer&)>;
  // `emit` is called once per item, in the order of add(). `model` must outlive this. ConfigError: not a
  // model of a labelled task, or a length beyond its limit.
  TaskReader(OpenModel& model, const TaskOptions& options, Emit emit);

  const model::TaskConfig& task() const { return task_; }
  // Add an item; rows are collected until a pass is full. Labels are ignored. DataError: too long for a row.
  void add(data::LabelledText text, const data::LabelledSource& source);
  void add(data::LabelledWords words, const data::LabelledSource& source);
  void add(data::LabelledQuestion question, const data::LabelledSource& source);
  // A text as tokens, and the one by which it is classified.
  void add(std::vector<std::int32_t> tokens, std::int32_t asked);
  void flush();

 private:
  struct Question {
    data::LabelledQuestion text;
    EncodedQuestion encoded;
  };
  struct Pending {
    data::LabelledRow row;
    std::vector<std::int32_t> asked;  // tokens of the row whose logits are needed
    std::vector<std::string> words;
    std::vector<std::int32_t> first;  // token of every word; -1: none
    // For a question, `asked` is all tokens of the window; the answer is complete after the last window.
    std::shared_ptr<const Question> question;
    std::size_t window = 0;
  };
  // The most likely answer of all windows of a question, by the sum of its logits.
  struct Best {
    bool found = false;
    EncodedQuestion::Bytes answer{0, 0};
    double score = 0, probability = 0, no_answer = 0;
  };

  void append(Pending pending);
  void answer(const Pending& pending, std::span<const float> logits);
  TextClass class_of(std::span<const float> logits) const;
  WordTags tags_of(const Pending& pending, std::span<const float> logits) const;
  void look_at(const Pending& pending, std::span<const float> logits);
  QuestionAnswer answer_of(const Question& question) const;

  const TaskOptions options_;
  const Emit emit_;
  const std::unique_ptr<EncoderRank> rank_;
  const model::TaskConfig& task_;
  RowEncoder encoder_;
  std::int64_t tokens_ = 0;
  std::vector<Pending> pending_;
  Best best_;  // so far, for the question whose windows are being read
};

}  // namespace stoa::infer
