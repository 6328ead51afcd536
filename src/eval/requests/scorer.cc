#include "eval/requests/scorer.h"

#include <algorithm>
#include <cmath>

#include "base/checksum.h"
#include "base/error.h"
#include "eval/requests/answer_by_passes.h"
#include "eval/requests/chat_prompt.h"
#include "eval/requests/generated_answers.h"
#include "infer/engine/write_text.h"

namespace stoa::eval {
namespace {

constexpr std::int64_t kPassTokens = 2048;  // of texts that are packed
constexpr std::int64_t kSequences = 128;    // that are read at once

const token::Tokenizer& tokenizer_of(infer::OpenModel& model) {
  model.require_kind(model::ModelKind::kGpt);
  return model.tokenizer();
}

}  // namespace

std::int64_t window_of(const model::ModelConfig& config, const ScoringOptions& options) {
  const std::int64_t positions = config.max_positions(), window = options.max_length.value_or(positions);
  require<ConfigError>(window >= 2 && window <= positions, "--max_length {}: the model has {} positions",
                       window, positions);
  return window;
}

Scorer::Scorer(infer::OpenModel& model, std::vector<Request> requests,
               std::vector<const infer::GenerateOptions*> generation, const ScoringOptions& options)
    : model_(model),
      requests_(tokenizer_of(model), std::move(requests), std::move(generation),
                window_of(model.model().config, options), options.add_bos) {
  load();
}

void Scorer::load() {
  std::int64_t context = 1, longest = 1;
  for (const EncodedText& text : requests_.texts()) {
    const auto n = static_cast<std::int64_t>(text.tokens.size());
    if (!text.rolling || infer::can_share_keys(model_))
      context = std::max(context, n + (text.generate ? requests_.generation(text).max_tokens : 0));
    if (!text.generate) longest = std::max(longest, n);
  }
  if (infer::can_share_keys(model_)) {
    infer::EngineUse use;
    use.context = context;
    use.sequences = kSequences;
    paged_ = infer::load_paged_decoder(model_, use);
    return;
  }
  // What begins alike is read one after the other; windows of texts, which share nothing, come last.
  std::stable_sort(requests_.texts().begin(), requests_.texts().end(),
                   [](const EncodedText& a, const EncodedText& b) {
                     return a.rolling != b.rolling ? b.rolling : !a.rolling && a.tokens < b.tokens;
                   });
  infer::DecoderUse use;
  use.context = context;
  use.pass_tokens = kPassTokens;
  use.text_tokens = longest;
  rank_ = infer::load_decoder(model_, use);
  engine_ = std::make_unique<infer::Engine>(rank_->passes());
}

bool Scorer::is_greedy(const EncodedText& text, std::span<const float> losses) {
  constexpr float kHalf = 0.69F;  // a loss below ln 2: no other token is as likely
  for (std::size_t i = text.tokens.size() - text.scored; i < text.tokens.size(); ++i) {
    if (losses[i] < kHalf) continue;
    infer::Request request;
    request.prompt.assign(text.tokens.begin(), text.tokens.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    request.sampling.greedy = true;
    request.max_tokens = 1;
    bool same = false;
    engine_->submit(std::move(request), [&](const infer::Event& event) {
      if (event.kind == infer::Event::Kind::kToken) same = event.token.token.id == text.labels[i];
      return true;
    });
    while (engine_->step()) {
    }
    if (!same) return false;
  }
  return true;
}

void Scorer::score(std::span<EncodedText> texts, AnswerCollector& answers) {
  std::vector<std::int32_t> tokens, labels;
  std::vector<std::int64_t> lengths;
  for (const EncodedText& text : texts) {
    tokens.insert(tokens.end(), text.tokens.begin(), text.tokens.end());
    labels.insert(labels.end(), text.labels.begin(), text.labels.end());
    lengths.push_back(static_cast<std::int64_t>(text.tokens.size()));
  }
  std::vector<float> losses(tokens.size());
  rank_->losses(tokens, labels, lengths, losses);
  std::size_t end = 0;
  for (EncodedText& text : texts) {
    const auto own = std::span(losses).subspan(end, text.tokens.size());
    end += text.tokens.size();
    for (const float loss : own.last(text.scored)) text.log_likelihood -= loss;
    answers.of(text).greedy = !text.rolling && std::isfinite(text.log_likelihood) && is_greedy(text, own);
  }
}

std::string Scorer::generate(const EncodedText& text) {
  infer::GenerateOptions how = requests_.generation(text);
  how.sampling.seed = requests_.seed_of(text);
  how.end_tokens = end_ids();
  const auto result = infer::write_text(*engine_, model_.tokenizer(), text.tokens, how,
                                        [](std::string_view) { return true; });
  require<NumericsError>(result.reason != infer::EndReason::kNotANumber,
                         "the model's logits are not numbers");
  return answer_text(model_.tokenizer(), result.answer, how.stop);
}

std::vector<std::int32_t> Scorer::end_ids() const {
  infer::GenerateOptions ends;
  ends.end_tokens.assign(model_.special().eos.begin(), model_.special().eos.end());
  return infer::end_ids(model_.tokenizer(), ends);
}

void Scorer::run_packed(const AnswerTold& told) {
  AnswerCollector answers(requests_, told);
  std::vector<EncodedText>& texts = requests_.texts();
  const auto pass = static_cast<std::size_t>(rank_->pass_tokens());
  for (std::size_t i = 0; i < texts.size();) {
    std::size_t end = i + 1;
    if (texts[i].generate) {
      answers.of(texts[i]).text = generate(texts[i]);
    } else {
      std::size_t tokens = texts[i].tokens.size();
      while (end < texts.size() && !texts[end].generate && tokens + texts[end].tokens.size() <= pass)
        tokens += texts[end++].tokens.size();
      score(std::span(texts).subspan(i, end - i), answers);
    }
    for (; i < end; ++i) answers.done(texts[i]);
  }
}

void Scorer::run(const AnswerTold& told) {
  if (paged_)
    answer_by_passes(*paged_, model_.tokenizer(), end_ids(), requests_, told);
  else
    run_packed(told);
}

// The model's files.
std::string ModelAnswerer::identity() {
  return checksum_text(
      checksum(fmt::format("{}\n{}\n{}", checksum_of_states(model_.directory()),
                           name_of(model_.precision().compute), model_.model().config.num_layers)));
}

ChatFunction ModelAnswerer::chat() { return chat_function(model_.tokenizer()); }

TokenCount ModelAnswerer::tokens(const ScoringOptions& options) {
  return token_count(model_.tokenizer(), options.add_bos);
}

Answerer::Facts ModelAnswerer::answer(std::vector<Request> requests,
                                      std::vector<const infer::GenerateOptions*> generation,
                                      const ScoringOptions& options, const AnswerTold& told) {
  Scorer scorer(model_, std::move(requests), std::move(generation), options);
  scorer.run(told);
  return {scorer.truncated(), scorer.window(), std::string(name_of(scorer.dtype()))};
}

}  // namespace stoa::eval
