#include "cli/predict_command.h"

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "cli/input_lines.h"
#include "cli/model_argument.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "cli/probabilities.h"
#include "infer/encoder_rank.h"
#include "infer/question_windows.h"
#include "infer/tag_spans.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;

struct AnswerArguments {
  ModelArguments model;
  std::string file;
  std::int64_t max_length = 0, doc_stride = 128;
  bool allow_no_answer = false;
};

std::size_t best_of(const std::vector<double>& p) {
  return static_cast<std::size_t>(std::max_element(p.begin(), p.end()) - p.begin());
}

// Lines gather until a pass is full; answers come in their order.
class Predictor {
 public:
  explicit Predictor(const AnswerArguments& a)
      : arguments_(a),
        model_(a.model.open()),
        rank_(infer::load_encoder(model_, {.masks = 0, .answers = true})),
        bert_(rank_->options().model.config.bert),
        encoder_(model_.tokenizer(), bert_, longest(a)),
        name_(a.file.empty() || a.file == "-" ? "standard input" : a.file) {}

  void add(const std::string& line) {
    const data::LabelledSource source{name_, ++number_};
    const std::size_t begin = line.find_first_not_of(" \t\r");
    require<DataError>(begin != line.npos, "{} line {}: an empty line", name_, number_);
    const bool json = line[begin] == '{';
    if (bert_.task == model::BertTask::kTokenClassification) return add_words(line, json, source);
    if (bert_.task == model::BertTask::kQuestionAnswering) return add_question(line, source);
    data::LabelledText text{line, {}, {}};
    if (json) text = data::parse_labelled_text(line, source);
    text.label.reset();  // what it is said to be does not count
    Pending pending;
    pending.row = encoder_.text(text, source);
    pending.asked = {0};
    append(std::move(pending));
  }

  void flush() {
    if (pending_.empty()) return;
    std::vector<std::int32_t> tokens, types, rows;
    std::vector<std::int64_t> lengths;
    for (const Pending& p : pending_) {
      for (const std::int32_t token : p.asked)
        rows.push_back(static_cast<std::int32_t>(tokens.size()) + token);
      tokens.insert(tokens.end(), p.row.tokens.begin(), p.row.tokens.end());
      types.insert(types.end(), p.row.token_types.begin(), p.row.token_types.end());
      lengths.push_back(static_cast<std::int64_t>(p.row.tokens.size()));
    }
    const auto classes = static_cast<std::size_t>(bert_.classes());
    std::span<const float> logits;
    if (!rows.empty()) logits = rank_->answers(tokens, types, lengths, rows);
    std::size_t at = 0;
    for (const Pending& p : pending_) {
      show(p, logits.subspan(at * classes, p.asked.size() * classes));
      at += p.asked.size();
    }
    pending_.clear();
    tokens_ = 0;
  }

 private:
  struct Question {
    data::LabelledQuestion text;
    infer::EncodedQuestion encoded;
  };
  struct Pending {
    data::LabelledRow row;
    std::vector<std::int32_t> asked;  // tokens of the row
    std::vector<std::string> words;
    std::vector<std::int32_t> first;  // token of every word; -1: none
    // Of a question: all tokens of its windows are asked, the last of which prints the answer.
    std::shared_ptr<const Question> question;
    std::size_t window = 0;
  };

  std::int64_t longest(const AnswerArguments& a) const {
    const std::int64_t most = rank_->options().longest;
    require<ConfigError>(a.max_length <= most, "--max-length {}: the model reads at most {} tokens",
                         a.max_length, most);
    return a.max_length > 0 ? a.max_length : most;
  }

  void add_words(const std::string& line, bool json, const data::LabelledSource& source) {
    data::LabelledWords words;
    if (json) {
      words = data::parse_labelled_words(line, source);
      words.tags.clear();
    } else {
      std::istringstream in(line);
      for (std::string word; in >> word;) words.words.push_back(word);
    }
    auto encoded = encoder_.words(words, source);
    Pending pending;
    pending.row = std::move(encoded.row);
    pending.words = std::move(words.words);
    pending.first = std::move(encoded.first);
    for (const std::int32_t token : pending.first)
      if (token >= 0) pending.asked.push_back(token);
    append(std::move(pending));
  }

  void add_question(const std::string& line, const data::LabelledSource& source) {
    auto question = std::make_shared<Question>();
    question->text = data::parse_labelled_question(line, source);
    question->encoded = infer::encode_question(encoder_, arguments_.doc_stride, question->text, source);
    for (std::size_t w = 0; w < question->encoded.windows.size(); ++w) {
      Pending pending;
      pending.row = question->encoded.windows[w].row;
      pending.asked.resize(pending.row.tokens.size());
      std::iota(pending.asked.begin(), pending.asked.end(), 0);
      pending.question = question;
      pending.window = w;
      append(std::move(pending));
    }
  }

  void append(Pending pending) {
    const auto count = static_cast<std::int64_t>(pending.row.tokens.size());
    if (tokens_ + count > rank_->options().pass_tokens) flush();
    tokens_ += count;
    pending_.push_back(std::move(pending));
  }

  void show(const Pending& p, std::span<const float> logits) {
    if (p.question) {
      look_at(p, logits);
      if (p.window + 1 < p.question->encoded.windows.size()) return;
    }
    const Json out = p.question                                            ? answer_of(*p.question)
                     : bert_.task == model::BertTask::kTokenClassification ? tags_of(p, logits)
                                                                           : class_of(logits);
    print_json_line(out);
  }

  Json class_of(std::span<const float> logits) const {
    if (bert_.regression()) return {{"label", bert_.labels[0]}, {"value", static_cast<double>(logits[0])}};
    const std::vector<double> p = probabilities(logits);
    Json scores = Json::object();
    for (std::size_t i = 0; i < p.size(); ++i) scores[bert_.labels[i]] = p[i];
    return {{"label", bert_.labels[best_of(p)]}, {"score", p[best_of(p)]}, {"scores", std::move(scores)}};
  }

  Json tags_of(const Pending& p, std::span<const float> logits) const {
    const std::size_t classes = bert_.labels.size();
    Json tags = Json::array(), scores = Json::array(), spans = Json::array();
    std::vector<std::int32_t> numbers;  // of the words that have a token, one after the other
    std::vector<std::size_t> words;
    for (std::size_t w = 0; w < p.words.size(); ++w) {
      if (p.first[w] < 0) {
        tags.push_back(nullptr), scores.push_back(nullptr);
        continue;
      }
      const std::vector<double> share = probabilities(logits.subspan(numbers.size() * classes, classes));
      const std::size_t best = best_of(share);
      tags.push_back(bert_.labels[best]), scores.push_back(share[best]);
      numbers.push_back(static_cast<std::int32_t>(best));
      words.push_back(w);
    }
    Json out{{"words", p.words}, {"tags", std::move(tags)}, {"scores", std::move(scores)}};
    if (!infer::are_span_tags(bert_.labels)) return out;
    for (const infer::TagSpan& s : infer::tag_spans(numbers, bert_.labels)) {
      std::string text;
      for (std::size_t i = s.begin; i < s.end; ++i) text += (text.empty() ? "" : " ") + p.words[words[i]];
      spans.push_back(
          {{"type", s.type}, {"begin", words[s.begin]}, {"end", words[s.end - 1] + 1}, {"text", text}});
    }
    out["spans"] = std::move(spans);
    return out;
  }

  // The likeliest answer of all windows of a question, by the sum of its logits.
  struct Best {
    bool found = false;
    infer::EncodedQuestion::Bytes answer{0, 0};
    double score = 0, probability = 0, no_answer = 0;
  };

  void look_at(const Pending& p, std::span<const float> logits) {
    if (p.window == 0) best_ = {};
    const double none = static_cast<double>(logits[0]) + static_cast<double>(logits[1]);
    best_.no_answer = p.window == 0 ? none : std::min(best_.no_answer, none);
    const infer::QuestionWindow& window = p.question->encoded.windows[p.window];
    if (window.count == 0) return;
    const infer::SpanChoice choice = infer::best_span(logits, window.first, window.count);
    if (best_.found && choice.score <= best_.score) return;
    std::array<std::vector<float>, 2> sides;
    for (std::size_t i = 0; i < logits.size(); ++i) sides[i % 2].push_back(logits[i]);
    best_ = {true, p.question->encoded.answer(window, choice.first, choice.last), choice.score,
             probabilities(sides[0])[static_cast<std::size_t>(choice.first)] *
                 probabilities(sides[1])[static_cast<std::size_t>(choice.last)],
             best_.no_answer};
  }

  Json answer_of(const Question& question) const {
    Json out = Json::object();
    if (!question.text.id.empty()) out["id"] = question.text.id;
    if (!best_.found || (arguments_.allow_no_answer && best_.no_answer > best_.score)) {
      out.update({{"answer", ""}, {"answer_start", nullptr}, {"score", nullptr}});
      return out;
    }
    const std::string& context = question.text.context;
    const auto [begin, end] = best_.answer;
    // Characters, as in the training data.
    const auto characters =
        std::count_if(context.begin(), context.begin() + static_cast<std::ptrdiff_t>(begin),
                      [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
    out.update({{"answer", context.substr(begin, end - begin)},
                {"answer_start", characters},
                {"score", best_.probability}});
    return out;
  }

  const AnswerArguments& arguments_;
  infer::OpenModel model_;
  const std::unique_ptr<infer::EncoderRank> rank_;
  const model::BertConfig& bert_;
  infer::RowEncoder encoder_;
  std::string name_;
  std::int64_t number_ = 0, tokens_ = 0;
  std::vector<Pending> pending_;
  Best best_;  // so far, of the question whose windows are printed
};

void predict(const AnswerArguments& arguments) {
  InputLines in(arguments.file);
  Predictor predictor(arguments);
  for (std::string line; in.next(line);) predictor.add(line);
  predictor.flush();
}

}  // namespace

void add_predict_command(CLI::App& app, Context&) {
  auto arguments = std::make_shared<AnswerArguments>();
  CLI::App* command =
      app.add_subcommand("predict",
                         "What a fine-tuned encoder (model.bert.task) answers, a JSON object per line: the "
                         "class of a text, the "
                         "tags of its words, or the answer of a question. Example: echo 'A fine film' | stoa "
                         "predict runs/sentiment");
  arguments->model.add_to(*command);
  command->add_option(
      "FILE", arguments->file,
      "A text per line (not for questions), or a JSON object as in training, its label left out or not read "
      "(default: standard input)");
  command
      ->add_option("--max-length", arguments->max_length,
                   "Longer texts are cut to so many tokens (default: what the model reads)")
      ->check(between(1, 1 << 24));
  command
      ->add_option("--doc-stride", arguments->doc_stride,
                   "Questions: tokens between the windows of a long context")
      ->capture_default_str()
      ->check(between(1, 1 << 24));
  command->add_flag(
      "--allow-no-answer", arguments->allow_no_answer,
      "Questions: an empty answer where that is likelier (models trained with unanswered questions)");
  command->callback([arguments] { predict(*arguments); });
}

}  // namespace stoa::cli
