#include "infer/task_reader.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "infer/probabilities.h"
#include "infer/tag_spans.h"

namespace stoa::infer {
namespace {

std::size_t best_of(const std::vector<double>& p) {
  return static_cast<std::size_t>(std::max_element(p.begin(), p.end()) - p.begin());
}

std::int64_t longest_row(const TaskOptions& options, const EncoderRank& rank) {
  const std::int64_t most = rank.options().longest;
  require<ConfigError>(options.max_length <= most, "--max-length {}: the model reads at most {} tokens",
                       options.max_length, most);
  return options.max_length > 0 ? options.max_length : most;
}

}  // namespace

TaskReader::TaskReader(OpenModel& model, const TaskOptions& options, Emit emit)
    : options_(options),
      emit_(std::move(emit)),
      rank_(load_encoder(model, {.masks = 0, .answers = true})),
      task_(rank_->options().model.config.task),
      encoder_(model.tokenizer(), rank_->options().model.config, longest_row(options, *rank_),
               rank_->options().model.vocabulary) {}

void TaskReader::add(data::LabelledText text, const data::LabelledSource& source) {
  text.label.reset();  // what it is reported to be does not count
  Pending pending;
  pending.row = encoder_.text(text, source);
  pending.asked = {encoder_.text_token(pending.row)};
  append(std::move(pending));
}

void TaskReader::add(data::LabelledWords words, const data::LabelledSource& source) {
  words.tags.clear();
  auto encoded = encoder_.words(words, source);
  Pending pending;
  pending.row = std::move(encoded.row);
  pending.words = std::move(words.words);
  pending.first = std::move(encoded.first);
  for (const std::int32_t token : pending.first)
    if (token >= 0) pending.asked.push_back(token);
  append(std::move(pending));
}

void TaskReader::add(data::LabelledQuestion text, const data::LabelledSource& source) {
  auto question = std::make_shared<Question>();
  question->text = std::move(text);
  question->encoded = encode_question(encoder_, options_.doc_stride, question->text, source);
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

void TaskReader::add(std::vector<std::int32_t> tokens, std::int32_t asked) {
  Pending pending;
  pending.row.token_types.resize(tokens.size());
  pending.row.tokens = std::move(tokens);
  pending.asked = {asked};
  append(std::move(pending));
}

void TaskReader::append(Pending pending) {
  const auto count = static_cast<std::int64_t>(pending.row.tokens.size());
  if (tokens_ + count > rank_->options().pass_tokens) flush();
  tokens_ += count;
  pending_.push_back(std::move(pending));
}

void TaskReader::flush() {
  if (pending_.empty()) return;
  std::vector<std::int32_t> tokens, types, rows;
  std::vector<std::int64_t> lengths;
  for (const Pending& p : pending_) {
    for (const std::int32_t token : p.asked) rows.push_back(static_cast<std::int32_t>(tokens.size()) + token);
    tokens.insert(tokens.end(), p.row.tokens.begin(), p.row.tokens.end());
    types.insert(types.end(), p.row.token_types.begin(), p.row.token_types.end());
    lengths.push_back(static_cast<std::int64_t>(p.row.tokens.size()));
  }
  const auto classes = static_cast<std::size_t>(task_.classes());
  std::span<const float> logits;
  if (!rows.empty()) logits = rank_->answers(tokens, types, lengths, rows);
  std::size_t at = 0;
  for (const Pending& p : pending_) {
    answer(p, logits.subspan(at * classes, p.asked.size() * classes));
    at += p.asked.size();
  }
  pending_.clear();
  tokens_ = 0;
}

void TaskReader::answer(const Pending& pending, std::span<const float> logits) {
  if (pending.question) {
    look_at(pending, logits);
    if (pending.window + 1 == pending.question->encoded.windows.size()) emit_(answer_of(*pending.question));
    return;
  }
  if (task_.type == model::Task::kTokenClassification) return emit_(tags_of(pending, logits));
  emit_(class_of(logits));
}

TextClass TaskReader::class_of(std::span<const float> logits) const {
  if (task_.regression()) return {{static_cast<double>(logits[0])}, 0};
  TextClass out{probabilities(logits), 0};
  out.best = best_of(out.scores);
  return out;
}

WordTags TaskReader::tags_of(const Pending& pending, std::span<const float> logits) const {
  const std::size_t classes = task_.labels.size();
  WordTags out;
  out.words = pending.words;
  std::vector<std::int32_t> numbers;  // of the words that have a token, one after the other
  std::vector<std::size_t> words;
  for (std::size_t w = 0; w < pending.words.size(); ++w) {
    if (pending.first[w] < 0) {
      out.tags.emplace_back();
      continue;
    }
    const std::vector<double> share = probabilities(logits.subspan(numbers.size() * classes, classes));
    const std::size_t best = best_of(share);
    out.tags.push_back(WordTags::Tag{best, share[best]});
    numbers.push_back(static_cast<std::int32_t>(best));
    words.push_back(w);
  }
  if (!are_span_tags(task_.labels)) return out;
  out.spans.emplace();
  for (const TagSpan& s : tag_spans(numbers, task_.labels)) {
    std::string text;
    for (std::size_t i = s.begin; i < s.end; ++i) text += (text.empty() ? "" : " ") + pending.words[words[i]];
    out.spans->push_back({s.type, words[s.begin], words[s.end - 1] + 1, std::move(text)});
  }
  return out;
}

void TaskReader::look_at(const Pending& pending, std::span<const float> logits) {
  if (pending.window == 0) best_ = {};
  const double none = static_cast<double>(logits[0]) + static_cast<double>(logits[1]);
  best_.no_answer = pending.window == 0 ? none : std::min(best_.no_answer, none);
  const QuestionWindow& window = pending.question->encoded.windows[pending.window];
  if (window.count == 0) return;
  const SpanChoice choice = best_span(logits, window.first, window.count);
  if (best_.found && choice.score <= best_.score) return;
  std::array<std::vector<float>, 2> sides;
  for (std::size_t i = 0; i < logits.size(); ++i) sides[i % 2].push_back(logits[i]);
  best_ = {true, pending.question->encoded.answer(window, choice.first, choice.last), choice.score,
           probabilities(sides[0])[static_cast<std::size_t>(choice.first)] *
               probabilities(sides[1])[static_cast<std::size_t>(choice.last)],
           best_.no_answer};
}

QuestionAnswer TaskReader::answer_of(const Question& question) const {
  QuestionAnswer out{question.text.id, {}};
  if (!best_.found || (options_.allow_no_answer && best_.no_answer > best_.score)) return out;
  const std::string& context = question.text.context;
  const auto [begin, end] = best_.answer;
  // Characters, as in the training data.
  const auto characters =
      std::count_if(context.begin(), context.begin() + static_cast<std::ptrdiff_t>(begin),
                    [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
  out.found = {context.substr(begin, end - begin), characters, best_.probability};
  return out;
}

}  // namespace stoa::infer
