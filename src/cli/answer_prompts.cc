#include "cli/answer_prompts.h"

#include <algorithm>
#include <deque>
#include <memory>

#include "chat/chat_template.h"
#include "infer/chat_session.h"
#include "infer/engine/write_text.h"
#include "infer/token_pair.h"

namespace stoa::cli {
namespace {

// Prompts in flight for each that runs: a long answer to the first holds up none of the others.
constexpr std::int64_t kInFlight = 4;

// The ids of prompts.
class PromptReader {
 public:
  // `sources`: of an encoder-decoder.
  PromptReader(const token::Tokenizer& tokenizer, bool sources)
      : tokenizer_(tokenizer), sources_(sources), template_(infer::chat_template_of(tokenizer)) {
    infer::name_special_tokens(tokenizer, variables_);
  }
  std::vector<std::int32_t> ids_of(const FilePrompt& prompt) const {
    if (sources_) return source_ids(tokenizer_, prompt);
    if (!prompt.messages) return infer::prompt_ids(tokenizer_, prompt.text);
    require<DataError>(template_.has_value(),
                       "'messages' need a chat template, and this model has none: give a 'prompt'");
    chat::RenderOptions render;
    render.add_generation_prompt = true;
    render.variables = variables_;
    return tokenizer_.encode(template_->render(*prompt.messages, render),
                             {.plain = false, .add_special = false});
  }

 private:
  const token::Tokenizer& tokenizer_;
  const bool sources_;
  const std::optional<chat::ChatTemplate> template_;
  nlohmann::ordered_json variables_ = nlohmann::ordered_json::object();
};

// An answer under way.
class OpenAnswer {
 public:
  OpenAnswer(FilePrompt prompt, const token::Tokenizer& tokenizer)
      : prompt_(std::move(prompt)),
        take_([this](std::string_view piece) { return answer_.text += piece, true; }),
        writer_(tokenizer, prompt_.options, take_) {}

  bool receive(const infer::Event& event) {
    if (event.kind == infer::Event::Kind::kToken) {
      answer_.ids.push_back(event.token.token.id);
      return writer_.push(event.token.token.id);
    }
    answer_.reason = writer_.finish(event.reason);
    done_ = true;
    return true;
  }
  void submit_to(infer::Engine& engine, const token::Tokenizer& tokenizer, std::vector<std::int32_t> ids) {
    answer_.prompt_ids = ids;
    engine.submit(infer::request_of(std::move(ids), tokenizer, prompt_.options),
                  [this](const infer::Event& event) { return receive(event); });
  }
  bool done() const { return done_; }
  // The share of its longest length that is written.
  double share() const {
    const auto length = static_cast<double>(answer_.ids.size());
    return done_ ? 1 : std::min(1.0, length / static_cast<double>(prompt_.options.max_tokens));
  }
  const FilePrompt& prompt() const { return prompt_; }
  const ListedAnswer& answer() const { return answer_; }

 private:
  const FilePrompt prompt_;
  ListedAnswer answer_;
  const infer::TakeText take_;
  infer::AnswerWriter writer_;
  bool done_ = false;
};

}  // namespace

std::vector<std::int32_t> source_ids(const token::Tokenizer& tokenizer, const FilePrompt& prompt) {
  require<DataError>(!prompt.messages, "'messages' are for models that continue a text: give a 'prompt'");
  return infer::ids_with_end(tokenizer, prompt.text);
}

void answer_prompts(infer::Engine& engine, const token::Tokenizer& tokenizer, const std::string& prompts,
                    const infer::GenerateOptions& options, AnswerList& answers) {
  const PromptReader reader(tokenizer, engine.limits().reads_sources());
  FilePrompt prompt;
  if (!is_read_once(prompts)) {
    std::int64_t count = 0;
    for (PromptFile file(prompts, options); file.next(prompt); ++count)
      file.at_place(
          [&] { engine.check(infer::request_of(reader.ids_of(prompt), tokenizer, prompt.options)); });
    require<DataError>(count > 0, "{} has no prompts", prompts);
    answers.begin(count);
  }
  PromptFile file(prompts, options);
  std::deque<std::unique_ptr<OpenAnswer>> open;  // in the order of their prompts
  bool more = true;
  while (true) {
    answers.check_interrupt();
    while (more && std::ssize(open) < kInFlight * engine.limits().sequences && (more = file.next(prompt))) {
      if (answers.has(prompt)) continue;
      file.at_place([&] {
        auto ids = reader.ids_of(prompt);
        open.push_back(std::make_unique<OpenAnswer>(std::move(prompt), tokenizer));
        open.back()->submit_to(engine, tokenizer, std::move(ids));
      });
    }
    if (open.empty()) break;
    engine.step();
    for (; !open.empty() && open.front()->done(); open.pop_front())
      answers.add(open.front()->prompt(), open.front()->answer());
    double under_way = 0;
    for (const auto& answer : open) under_way += answer->share();
    answers.update(under_way);
  }
  answers.finish();
}

}  // namespace stoa::cli
