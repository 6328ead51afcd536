#include "cli/answer_list.h"

#include "base/error.h"
#include "base/timing.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "infer/loaded_chunk.h"

namespace stoa::cli {
namespace {

// An answer in a line of a text.
std::string in_one_line(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : std::string(1, c);
  return out;
}

}  // namespace

AnswerList::AnswerList(const AnswerListOptions& options, const AnswerFile::Json& origin, Context& context)
    : context_(context), options_(options), begin_(std::chrono::steady_clock::now()) {
  if (options.output.empty()) return;
  context.interrupt.set({.grace = std::chrono::seconds(60),
                         .words = "the answers so far are kept (again: exit immediately)",
                         .last_words = {}});
  file_.emplace(options.output, origin);
}

void AnswerList::begin(std::int64_t prompts) {
  prompts_ = prompts;
  begin_ = std::chrono::steady_clock::now();
  if (!file_) return;
  found_ = file_->found();
  if (found_ > 0)
    context_.console.line(
        fmt::format("continues after {} of {} answers in {}.partial", found_, prompts, options_.output));
  progress_.emplace(context_.console, "generate", static_cast<double>(prompts - found_), " prompts");
}

void AnswerList::add(const FilePrompt& prompt, const ListedAnswer& answer) {
  require<NumericsError>(answer.reason != infer::EndReason::kNotANumber,
                         "line {} of the prompts: the model's logits after {} tokens of the answer are not "
                         "numbers: {}",
                         prompt.line, answer.ids.size(), infer::kBeyondRange);
  ++added_;
  tokens_ += std::ssize(answer.ids);
  if (!file_ && !options_.json) return print(in_one_line(answer.text) + "\n");
  AnswerFile::Json line{{"line", prompt.line}};
  for (const auto& [label, value] : prompt.labels.items()) line[label] = value;
  if (prompt.messages)
    line["messages"] = *prompt.messages;
  else
    line["prompt"] = prompt.text;
  line["text"] = answer.text;
  line["prompt_ids"] = answer.prompt_ids;
  line["ids"] = answer.ids;
  line["end"] = infer::name_of(answer.reason);
  if (answer.score) line["score"] = *answer.score;
  if (!file_) return print_json_line(line);
  file_->write(line);
  update(0);
}

void AnswerList::update(double under_way) {
  if (progress_) progress_->update(static_cast<double>(added_) + under_way);
}

void AnswerList::check_interrupt() {
  if (!file_ || !context_.interrupt.token().stop_requested()) return;
  file_->save();
  require<Interrupted>(found_ + added_ > 0, "interrupted before the first of {} answers: nothing is kept",
                       prompts_);
  fail<Interrupted>("interrupted after {} of {} answers, which are in {}.partial: the same command continues",
                    found_ + added_, prompts_, options_.output);
}

void AnswerList::finish() {
  if (file_) {
    file_->commit();
    context_.interrupt.set({});
    progress_->finish();
  }
  if (options_.json) return;
  const double seconds = std::max(1e-9, seconds_since(begin_));
  context_.console.line(fmt::format("{} answers, {} tokens, {:.1f} tokens/s", added_, tokens_,
                                    static_cast<double>(tokens_) / seconds));
}

}  // namespace stoa::cli
