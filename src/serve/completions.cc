// /v1/completions.
#include <ctime>

#include "serve/constraint_fields.h"
#include "serve/handlers.h"
#include "serve/infill.h"
#include "serve/sampling_fields.h"
#include "serve/token_text.h"
#include "token/stream_decoder.h"

namespace stoa::serve {

std::string json_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<std::vector<std::int32_t>> read_prompts(const RequestBody& body, const char* name,
                                                    const ServedModel& model, bool add_special,
                                                    std::size_t most) {
  const Json& value = body.at(name);
  if (value.is_string()) return {model.encode(value.get_ref<const std::string&>(), add_special)};
  check(value.is_array() && !value.empty(), name,
        "'{}' must be a text, token ids, or a list of either, and not empty", name);
  std::vector<std::vector<std::int32_t>> out;
  if (value.front().is_number()) {
    out.push_back(ids_of(value, name, model.vocabulary()));
    return out;
  }
  check(value.size() <= most, name, "'{}' has {} entries, at most {} are taken", name, value.size(), most);
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", name, i);
    if (value[i].is_string()) {
      out.push_back(model.encode(value[i].get_ref<const std::string&>(), add_special));
    } else {
      out.push_back(ids_of(value[i], place, model.vocabulary()));
      check(!out.back().empty(), name, "'{}' is empty", place);
    }
  }
  return out;
}

namespace {

struct CompletionForm {
  std::string id;
  bool echo = false, usage_chunk = false, usage_always = false;
  std::optional<std::int64_t> logprobs;
  std::vector<std::vector<std::int32_t>> prompts;
  bool skip_special = true;
};

class CompletionTask : public GenerationTask {
 public:
  CompletionTask(std::shared_ptr<ServedModel> model, const Call& call, bool stream, CompletionForm form)
      : GenerationTask(std::move(model), call.answer, stream),
        form_(std::move(form)),
        created_(std::time(nullptr)) {}

  void prepare(std::size_t choices) {
    for (const auto& prompt : form_.prompts) {
      // Offsets count from the beginning of the prompt, whether or not it is echoed, unless the answer is a
      // text of its own.
      const std::int64_t offset =
          form_.logprobs && !this->model().reads_sources() ? characters(text_of(prompt)) : 0;
      for (std::size_t i = 0; i < choices; ++i)
        choices_.push_back({{}, CompletionScores(model().tokenizer()), offset});
    }
  }

 protected:
  struct Choice {
    std::string text;
    CompletionScores scores;
    std::int64_t offset;  // of the answer: characters of the prompt
    std::string reason = {};
  };

  void on_begin() override {
    if (!form_.echo) return;
    for (std::size_t p = 0; p < form_.prompts.size(); ++p)
      if (!form_.logprobs) begin_with_prompt(p, {});
  }
  void on_prompt(std::size_t prompt, const std::vector<infer::ScoredToken>& scores) override {
    begin_with_prompt(prompt, scores);
  }

  void begin_with_prompt(std::size_t prompt, const std::vector<infer::ScoredToken>& scores) {
    const auto& ids = form_.prompts[prompt];
    token::StreamDecoder decoder(model().tokenizer(), {.skip_special = form_.skip_special});
    std::string text;
    CompletionScores entries(model().tokenizer());
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (form_.logprobs) i == 0 ? entries.add_first(ids[0], 0) : entries.add(scores[i - 1], offset);
      const std::string piece = decoder.push(ids[i]);
      offset += characters(piece);
      text += piece;
    }
    text += decoder.finish();
    for (std::size_t c = 0; c < choices_per_prompt(); ++c) {
      Choice& choice = choices_[prompt * choices_per_prompt() + c];
      if (stream()) {
        send_chunk(prompt * choices_per_prompt() + c, text, form_.logprobs ? entries.json() : Json(),
                   nullptr);
      } else {
        choice.text = text;
        choice.scores = entries;
      }
    }
  }

  void on_piece(std::size_t index, AnswerPiece piece) override {
    Choice& choice = choices_[index];
    if (!stream()) {
      choice.text += piece.text;
      for (const auto& token : piece.tokens) choice.scores.add(token.score, choice.offset + token.offset);
      return;
    }
    CompletionScores entries(model().tokenizer());
    for (const auto& token : piece.tokens) entries.add(token.score, choice.offset + token.offset);
    send_chunk(index, piece.text, form_.logprobs ? entries.json() : Json(), nullptr);
  }

  void on_choice_end(std::size_t index, infer::EndReason reason) override {
    const bool full = reason == infer::EndReason::kLength || reason == infer::EndReason::kContext;
    choices_[index].reason = full ? "length" : "stop";
    if (stream()) send_chunk(index, "", nullptr, choices_[index].reason);
  }

  void on_finish() override {
    if (stream()) {
      if (form_.usage_chunk) {
        Json last = frame();
        last["choices"] = Json::array();
        last["usage"] = to_json(usage());
        event(last);
      }
      return raw_event("data: [DONE]\n\n");
    }
    Json out = frame();
    Json list = Json::array();
    for (std::size_t i = 0; i < choices_.size(); ++i)
      list.push_back({{"index", i},
                      {"text", choices_[i].text},
                      {"logprobs", form_.logprobs ? choices_[i].scores.json() : Json()},
                      {"finish_reason", choices_[i].reason}});
    out["choices"] = std::move(list);
    out["usage"] = to_json(usage());
    answer().send({200, "application/json", json_text(out)});
  }

 private:
  std::string text_of(const std::vector<std::int32_t>& ids) const {
    return token::replace_invalid_utf8(model().tokenizer().decode(ids, {.skip_special = form_.skip_special}));
  }
  Json frame() const {
    return {
        {"id", form_.id}, {"object", "text_completion"}, {"created", created_}, {"model", model().name()}};
  }
  void send_chunk(std::size_t index, const std::string& text, Json scores, const Json& reason) {
    Json chunk = frame();
    chunk["choices"] = Json::array(
        {{{"index", index}, {"text", text}, {"logprobs", std::move(scores)}, {"finish_reason", reason}}});
    if (form_.usage_always)
      chunk["usage"] = to_json(Usage{usage().prompt_tokens, tokens_of(index), usage().cached_tokens});
    else if (form_.usage_chunk)
      chunk["usage"] = nullptr;
    event(chunk);
  }

  const CompletionForm form_;
  const std::int64_t created_;
  std::vector<Choice> choices_;
};

}  // namespace

StreamUsage read_stream_options(const RequestBody& body, bool stream) {
  const Json* options = body.find("stream_options");
  if (options == nullptr) return {};
  check(stream, "stream_options", "'stream_options' is used only with \"stream\": true");
  check(options->is_object(), "stream_options", "'stream_options' must be an object");
  StreamUsage out;
  for (const auto& [key, value] : options->items()) {
    check(key == "include_usage" || key == "continuous_usage_stats" || key == "include_obfuscation",
          "stream_options", "'stream_options' has an unknown field '{}'", key.substr(0, 100));
    check(value.is_boolean(), "stream_options", "'stream_options': '{}' must be true or false", key);
    if (key == "include_usage") out.last = value.get<bool>();
    if (key == "continuous_usage_stats") out.always = value.get<bool>();
  }
  return out;
}

void complete_text(const Call& call) {
  const RequestBody& body = call.body;
  const auto& model = call.model;
  model->require_engine();  // an encoder is refused
  CompletionForm form;
  form.id = "cmpl-" + call.id;
  const bool stream = body.boolean("stream", false);
  const StreamUsage usage = read_stream_options(body, stream);
  form.usage_chunk = usage.last;
  form.usage_always = usage.always;
  form.echo = body.boolean("echo", false);
  check(!form.echo || !model->reads_sources(), "echo",
        "'echo': '{}' is an encoder-decoder, whose answer does not continue the prompt", model->name());
  form.logprobs = body.integer("logprobs", 0, kMostCandidates);
  form.prompts = read_prompts(body, "prompt", *model, body.boolean("add_special_tokens", true), kMostPrompts);
  if (const auto suffix = body.text("suffix"); suffix && !suffix->empty()) {
    // Both are about the beginning of the text that the model reads, which here has the suffix in it.
    check(!form.echo, "echo", "'echo' is not supported together with 'suffix'");
    check(!body.has("truncate_prompt_tokens"), "truncate_prompt_tokens",
          "'truncate_prompt_tokens' is not supported together with 'suffix'");
    const auto prefixes = body.texts("prompt", kMostPrompts);
    for (std::size_t i = 0; i < prefixes.size(); ++i)
      form.prompts[i] = infill_prompt(*model, {prefixes[i], *suffix, {}}, "suffix");
  }
  if (const auto keep = body.integer("truncate_prompt_tokens", 1, 1 << 30))
    for (auto& prompt : form.prompts)
      if (std::ssize(prompt) > *keep) prompt.erase(prompt.begin(), prompt.end() - *keep);

  infer::Request job = read_sampling(body, *model);
  job.constraint = read_constraint(body, *model);
  AnswerText::Options text = read_text_options(body);
  form.skip_special = text.skip_special;
  text.keep_scores = form.logprobs.has_value();
  job.tenant = call.owner;
  if (form.logprobs) job.logprobs = static_cast<int>(*form.logprobs);
  job.processed_logprobs = reads_processed_logprobs(body);
  if (form.echo) job.prompt_logprobs = job.logprobs;
  const bool given = body.has("max_tokens");
  const auto wanted = read_length(body, "max_tokens", 0);
  check(wanted != 0 || form.echo, "max_tokens",
        "'max_tokens' must be at least 1: 0 is used only with \"echo\": true");
  check(form.prompts.size() * static_cast<std::size_t>(job.choices) <= kMostPrompts, "n",
        "{} prompts with n = {} are more than {} choices", form.prompts.size(), job.choices, kMostPrompts);
  std::vector<infer::Request> jobs;
  for (const auto& prompt : form.prompts) {
    const std::int64_t room = std::max<std::int64_t>(1, model->room(std::ssize(prompt)));
    job.max_tokens =
        answer_length(*model, prompt.size(), given ? wanted : std::min<std::int64_t>(16, room), "max_tokens");
    jobs.push_back(job);
    jobs.back().prompt = prompt;
  }
  auto task = std::make_shared<CompletionTask>(model, call, stream, std::move(form));
  task->prepare(static_cast<std::size_t>(job.choices));
  task->run(std::move(jobs), text);
}

}  // namespace stoa::serve
