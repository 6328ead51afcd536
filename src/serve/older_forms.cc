// The servers of NeMo (/generate) and of Megatron-LM (/api), under their field names. Their errors were bare
// texts, often with status 200; here they are proper ones.
#include "serve/handlers.h"
#include "serve/sampling_fields.h"
#include "serve/token_text.h"
#include "token/stream_decoder.h"

namespace stoa::serve {
namespace {

constexpr std::size_t kMostSentences = 128;

class OlderTask : public GenerationTask {
 public:
  // `nemo`: the form of NeMo, else Megatron-LM's. `scores`: log-probabilities of prompt and answer.
  OlderTask(std::shared_ptr<ServedModel> model, const Call& call, bool nemo, bool scores,
            std::vector<std::vector<std::int32_t>> prompts)
      : GenerationTask(std::move(model), call.answer, false),
        nemo_(nemo),
        scores_(scores),
        ids_(std::move(prompts)),
        log_probabilities_(ids_.size()) {}

 protected:
  void on_prompt(std::size_t prompt, const std::vector<infer::ScoredToken>& scores) override {
    for (const infer::ScoredToken& score : scores) log_probabilities_[prompt].push_back(score.token.logprob);
  }
  void on_piece(std::size_t choice, AnswerPiece piece) override {
    for (const auto& token : piece.tokens) {
      ids_[choice].push_back(token.score.token.id);
      log_probabilities_[choice].push_back(token.score.token.logprob);
    }
  }
  void on_choice_end(std::size_t, infer::EndReason) override {}

  void on_finish() override {
    Json texts = Json::array(), tokens = Json::array(), offsets = Json::array(), scores = Json::array();
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      token::StreamDecoder decoder(model().tokenizer(), {.skip_special = true});
      std::string text;
      Json names = Json::array(), starts = Json::array();
      std::int64_t at = 0;
      for (const auto id : ids_[i]) {
        names.push_back(token_name(model().tokenizer(), id));
        starts.push_back(at);
        const std::string piece = decoder.push(id);
        at += characters(piece);
        text += piece;
      }
      texts.push_back(text + decoder.finish());
      tokens.push_back(std::move(names));
      offsets.push_back(std::move(starts));
      scores.push_back(log_probabilities_[i]);
    }
    const Json given = scores_ ? scores : Json();
    const Json out = nemo_ ? Json{{"sentences", texts},      {"tokens", tokens},  {"logprob", given},
                                  {"full_logprob", nullptr}, {"token_ids", ids_}, {"offsets", offsets}}
                           : Json{{"text", texts}, {"segments", tokens}, {"logprobs", given}};
    answer().send({200, "application/json", json_text(out)});
  }

 private:
  const bool nemo_, scores_;
  std::vector<std::vector<std::int32_t>> ids_;
  std::vector<std::vector<float>> log_probabilities_;
};

void run_older(const Call& call, const ServedModel& model, std::shared_ptr<ServedModel> held,
               const char* field, infer::Request job, AnswerText::Options text, bool nemo) {
  const RequestBody& body = call.body;
  check(!model.reads_sources(), "model",
        "the model '{}' is an encoder-decoder: /v1/completions reads a prompt as its source", model.name());
  const Json& list = body.at(field);
  check(list.is_array() && !list.empty() && list.size() <= kMostSentences, field,
        "'{}' must be a list of 1 to {} texts", field, kMostSentences);
  const bool bos = body.boolean("add_BOS", false);
  job.max_tokens =
      body.integer("tokens_to_generate", nemo ? 1 : 0, std::numeric_limits<std::int32_t>::max()).value_or(64);
  job.tenant = call.owner;
  text.keep_scores = true;
  const bool scores = body.boolean(nemo ? "compute_logprob" : "logprobs", false);
  if (scores) job.logprobs = job.prompt_logprobs = 0;
  std::vector<infer::Request> jobs;
  std::vector<std::vector<std::int32_t>> prompts;
  for (const std::string& sentence : body.texts(field, kMostSentences)) {
    auto ids = model.encode(sentence, false);
    if (const auto id = model.tokenizer().bos_id(); bos && id && ids.front() != *id)
      ids.insert(ids.begin(), *id);
    answer_length(model, ids.size(), job.max_tokens, "tokens_to_generate");
    jobs.push_back(job);
    jobs.back().prompt = ids;
    prompts.push_back(std::move(ids));
  }
  std::make_shared<OlderTask>(std::move(held), call, nemo, scores, std::move(prompts))
      ->run(std::move(jobs), text);
}

}  // namespace

void generate_as_nemo(const Call& call) {
  const RequestBody& body = call.body;
  auto model = call.model;
  model->require_engine();
  infer::Request job;
  auto& s = job.sampling;
  s.greedy = body.boolean("greedy", false);
  s.temperature = body.number("temperature", 1e-6, 100).value_or(1);
  s.top_k = body.integer("top_k", 0, std::numeric_limits<std::int32_t>::max()).value_or(0);
  s.top_p = body.number("top_p", 0, 1).value_or(0.9);
  if (s.top_p == 0) s.top_p = 1;
  s.repetition_penalty = body.number("repetition_penalty", 1, 1000).value_or(1);
  s.min_tokens =
      body.integer("min_tokens_to_generate", 0, std::numeric_limits<std::int32_t>::max()).value_or(0);
  const auto seed = body.integer("random_seed", -1, std::numeric_limits<std::int64_t>::max());
  s.seed = seed && *seed >= 0 ? static_cast<std::uint64_t>(*seed) : random_seed();
  AnswerText::Options text;
  text.stop = read_stops(body, "end_strings");
  job.end_ids = model->end_tokens();
  // A special token among the end texts is that token.
  std::erase_if(text.stop, [&](const std::string& stop) {
    const auto id = model->tokenizer().token_to_id(stop);
    if (id && model->tokenizer().is_special(*id)) job.end_ids.push_back(*id);
    return stop == "<|endoftext|>" || (id && model->tokenizer().is_special(*id));
  });
  const ServedModel& served = *model;
  run_older(call, served, std::move(model), "sentences", std::move(job), std::move(text), true);
}

void generate_as_megatron(const Call& call) {
  const RequestBody& body = call.body;
  auto model = call.model;
  model->require_engine();
  infer::Request job;
  auto& s = job.sampling;
  s.temperature = body.number("temperature", 1e-6, 100).value_or(1);
  s.top_k = body.integer("top_k", 0, std::numeric_limits<std::int32_t>::max()).value_or(0);
  s.top_p = body.number("top_p", 0, 1).value_or(0);
  if (s.top_p == 0) s.top_p = 1;
  const auto seed = body.integer("random_seed", -1, std::numeric_limits<std::int64_t>::max());
  s.seed = seed && *seed >= 0 ? static_cast<std::uint64_t>(*seed) : random_seed();
  s.greedy = s.top_k == 1;
  job.end_ids = model->end_tokens();
  if (const auto id = body.integer("stop_token", 0, model->vocabulary() - 1))
    job.end_ids.push_back(static_cast<std::int32_t>(*id));
  const ServedModel& served = *model;
  run_older(call, served, std::move(model), "prompts", std::move(job), {}, false);
}

}  // namespace stoa::serve
