#include "eval/requests/scorer.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/error.h"
#include "eval/requests/answer_by_passes.h"
#include "eval/requests/chat_prompt.h"
#include "infer/generate.h"

namespace stoa::eval {
namespace {

constexpr std::int64_t kSequences = 128;  // that are read at once

const token::Tokenizer& tokenizer_of(infer::OpenModel& model) {
  model.require_kind(model::ModelKind::kGpt);
  return model.tokenizer();
}

}  // namespace

std::int64_t window_of(const model::ModelConfig& config, const ScoringOptions& options) {
  const std::int64_t positions = config.max_positions() - config.peft.virtual_count(),
                     window = options.max_length.value_or(positions);
  require<ConfigError>(window >= 2 && window <= positions, "--max_length {}: the model has {} positions",
                       window, positions);
  return window;
}

Scorer::Scorer(infer::OpenModel& model, std::vector<Request> requests,
               std::vector<const infer::GenerateOptions*> generation, const ScoringOptions& options)
    : model_(model),
      requests_(tokenizer_of(model), std::move(requests), std::move(generation),
                window_of(model.model().config, options), options.add_bos) {
  infer::EngineUse use;
  use.context = 1;
  for (const EncodedText& text : requests_.texts())
    use.context = std::max(
        *use.context, std::ssize(text.tokens) + (text.generate ? requests_.generation(text).max_tokens : 0));
  use.sequences = kSequences;
  use.cache = options.cache;
  decoder_ = infer::load_paged_decoder(model_, use);
}

std::vector<std::int32_t> Scorer::end_ids() const {
  infer::GenerateOptions ends;
  ends.end_tokens.assign(model_.special().eos.begin(), model_.special().eos.end());
  return infer::end_ids(model_.tokenizer(), ends);
}

void Scorer::run(const AnswerTold& told) {
  answer_by_passes(*decoder_, model_.tokenizer(), end_ids(), requests_, told);
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
