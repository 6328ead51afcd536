// `stoa predict`: what the head of a model fine-tuned for a labelled task answers.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "cli/command.h"
#include "cli/input_lines.h"
#include "cli/model_argument.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "eval/embeddings/correlation.h"
#include "infer/task_reader.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;

struct AnswerArguments {
  ModelArguments model;
  std::string file;
  infer::TaskOptions options;
};

// A line of the input: JSON as in training, or a text. The label of a text, if it has one.
std::optional<data::LabelValue> add_line(infer::TaskReader& reader, const std::string& line,
                                         const data::LabelledSource& source) {
  const std::size_t begin = line.find_first_not_of(" \t\r");
  require<DataError>(begin != line.npos, "{} line {}: an empty line", source.file, source.line);
  const bool json = line[begin] == '{';
  switch (reader.task().type) {
    case model::Task::kTokenClassification: {
      data::LabelledWords words;
      std::istringstream in(line);
      if (json)
        words = data::parse_labelled_words(line, source);
      else
        for (std::string word; in >> word;) words.words.push_back(word);
      reader.add(std::move(words), source);
      return {};
    }
    case model::Task::kQuestionAnswering:
      reader.add(data::parse_labelled_question(line, source), source);
      return {};
    default: {
      data::LabelledText text =
          json ? data::parse_labelled_text(line, source) : data::LabelledText{line, {}, {}};
      std::optional<data::LabelValue> label = text.label;
      reader.add(std::move(text), source);
      return label;
    }
  }
}

Json json_of(const infer::TextClass& answer, const model::TaskConfig& task) {
  if (task.regression()) return {{"label", task.labels[0]}, {"value", answer.scores[0]}};
  Json scores = Json::object();
  for (std::size_t i = 0; i < answer.scores.size(); ++i) scores[task.labels[i]] = answer.scores[i];
  return {{"label", task.labels[answer.best]},
          {"score", answer.scores[answer.best]},
          {"scores", std::move(scores)}};
}

Json json_of(const infer::WordTags& answer, const model::TaskConfig& task) {
  Json tags = Json::array(), scores = Json::array();
  for (const auto& tag : answer.tags) {
    tags.push_back(tag ? Json(task.labels[tag->label]) : Json(nullptr));
    scores.push_back(tag ? Json(tag->probability) : Json(nullptr));
  }
  Json out{{"words", answer.words}, {"tags", std::move(tags)}, {"scores", std::move(scores)}};
  if (!answer.spans) return out;
  Json spans = Json::array();
  for (const auto& span : *answer.spans)
    spans.push_back({{"type", span.type}, {"begin", span.begin}, {"end", span.end}, {"text", span.text}});
  out["spans"] = std::move(spans);
  return out;
}

Json json_of(const infer::QuestionAnswer& answer, const model::TaskConfig&) {
  Json out = Json::object();
  if (!answer.id.empty()) out["id"] = answer.id;
  if (answer.found)
    out.update({{"answer", answer.found->text},
                {"answer_start", answer.found->begin},
                {"score", answer.found->probability}});
  else
    out.update({{"answer", ""}, {"answer_start", nullptr}, {"score", nullptr}});
  return out;
}

// How well the numbers of a regression agree with the labels of the input, where every line has one.
void say_agreement(std::span<const double> found, std::span<const double> labels, Console& console) {
  if (labels.size() < 2 || labels.size() != found.size()) return;
  console.line(fmt::format("{} labels: Pearson {:.4f}, Spearman {:.4f}", labels.size(),
                           eval::pearson(found, labels), eval::spearman(found, labels)));
}

void predict(const AnswerArguments& arguments, Console& console) {
  InputLines in(arguments.file);
  infer::OpenModel model = arguments.model.open();
  std::vector<double> found, labels;  // of a regression
  infer::TaskReader reader(model, arguments.options, [&](const infer::TaskAnswer& answer) {
    if (reader.task().regression()) found.push_back(std::get<infer::TextClass>(answer).scores[0]);
    print_json_line(std::visit([&](const auto& a) { return json_of(a, reader.task()); }, answer));
  });
  data::LabelledSource source{
      arguments.file.empty() || arguments.file == "-" ? "standard input" : arguments.file, 0};
  for (std::string line; in.next(line);) {
    ++source.line;
    const auto label = add_line(reader, line, source);
    if (label && reader.task().regression()) labels.push_back(data::target_number(*label, source));
  }
  reader.flush();
  say_agreement(found, labels, console);
}

}  // namespace

void add_predict_command(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<AnswerArguments>();
  CLI::App* command = app.add_subcommand(
      "predict",
      "Predictions of a model fine-tuned for a labelled task (model.task), a JSON object per line: the class "
      "of a text, "
      "the tags of its words, or the answer to a question. Example: echo 'A fine film' | stoa "
      "predict runs/sentiment");
  arguments->model.add_to(*command);
  command->add_option(
      "FILE", arguments->file,
      "A text per line (not for questions), or a JSON object as in training, whose label is ignored, "
      "but compared with the number of a regression (default: standard input)");
  command
      ->add_option("--max-length", arguments->options.max_length,
                   "Longer texts are truncated to this many tokens (default: the model's limit)")
      ->check(between(1, 1 << 24));
  command
      ->add_option("--doc-stride", arguments->options.doc_stride,
                   "Questions: tokens between the starts of the windows of a long context")
      ->capture_default_str()
      ->check(between(1, 1 << 24));
  command->add_flag(
      "--allow-no-answer", arguments->options.allow_no_answer,
      "Questions: an empty answer if that is more likely (models trained with unanswered questions)");
  command->callback([arguments, &context] { predict(*arguments, context.console); });
}

}  // namespace stoa::cli
