#include "infer/engine/draft_model.h"

#include <utility>

#include "base/error.h"

namespace stoa::infer {
namespace {

void require_same_vocabulary(const token::Tokenizer& model, const token::Tokenizer& draft) {
  require<ConfigError>(
      model.vocab_size() == draft.vocab_size(),
      "the draft model's vocabulary has {} tokens, the model's has {}: both must be the same",
      draft.vocab_size(), model.vocab_size());
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(model.vocab_size()); ++id)
    require<ConfigError>(
        model.id_to_token(id) == draft.id_to_token(id),
        "token {} is '{}' in the draft model's vocabulary and '{}' in the model's: both must be "
        "the same",
        id, draft.id_to_token(id), model.id_to_token(id));
}

// The model is used as long as its decoder.
class DraftOfFiles final : public Drafter {
 public:
  DraftOfFiles(std::unique_ptr<OpenModel> model, std::unique_ptr<PassModel> decoder)
      : model_(std::move(model)), drafter_(std::move(decoder)) {}
  void propose(std::span<DraftWish> wishes) override { drafter_.propose(wishes); }
  void forget(SequenceId sequence) override { drafter_.forget(sequence); }

 private:
  const std::unique_ptr<OpenModel> model_;
  DraftModel drafter_;
};

}  // namespace

DraftModel::DraftModel(std::unique_ptr<PassModel> model)
    : model_(std::move(model)), scheduler_(model_->limits()) {}

void DraftModel::forget(SequenceId sequence) {
  const auto it = own_.find(sequence);
  if (it == own_.end()) return;
  scheduler_.remove(it->second);
  own_.erase(it);
}

// Lets the own sequence of a text be that text.
void DraftModel::follow(DraftWish& wish, std::map<SequenceId, Open>& open) {
  const std::int64_t length = std::ssize(wish.text);
  wish.most = std::min(wish.most, model_->limits().longest() - length);
  if (wish.most < 1) return forget(wish.sequence);
  auto it = own_.find(wish.sequence);
  if (it == own_.end()) {
    const SequenceId own = scheduler_.add({.tokens = {wish.text.begin(), wish.text.end()}});
    it = own_.emplace(wish.sequence, own).first;
  } else {
    const auto before = scheduler_.tokens(it->second);
    const auto same = std::ranges::mismatch(before, wish.text).in1 - before.begin();
    // The last token is recomputed where all are known: its logits are asked for.
    scheduler_.shorten(it->second, std::min<std::int64_t>(same, length - 1));
    scheduler_.append(it->second, wish.text.subspan(static_cast<std::size_t>(scheduler_.length(it->second))),
                      1);
  }
  open.emplace(it->second, Open{&wish, it->second, *wish.sampler});
}

void DraftModel::propose(std::span<DraftWish> wishes) {
  std::map<SequenceId, Open> open;  // by own sequence
  for (DraftWish& wish : wishes) follow(wish, open);
  const auto vocabulary = static_cast<std::size_t>(model_->limits().vocabulary);
  while (!open.empty()) {
    const PassPlan& plan = scheduler_.next();
    if (plan.segments.empty()) break;
    const std::span<const float> logits = model_->run(plan);
    const std::vector<PassSegment> segments = plan.segments;
    scheduler_.complete();
    std::size_t row = 0;
    bool useful = false;
    for (const PassSegment& segment : segments) {
      row += static_cast<std::size_t>(segment.scored);
      const auto it = open.find(segment.sequence);
      if (it == open.end()) continue;
      useful = true;
      if (!segment.last) continue;
      DraftWish& wish = *it->second.wish;
      const std::int32_t id = it->second.sampler.next(logits.subspan((row - 1) * vocabulary, vocabulary),
                                                      scheduler_.tokens(segment.sequence));
      wish.guesses.push_back(id);
      if (std::ssize(wish.guesses) == wish.most)
        open.erase(it);
      else
        scheduler_.append(segment.sequence, id);
    }
    if (!useful) break;
  }
}

EngineUse draft_use(const PassLimits& limits) {
  return {.context = limits.context, .sequences = limits.sequences};
}

std::unique_ptr<Drafter> load_draft_model(const fs::path& path, std::optional<DType> dtype,
                                          MakeMachine make_machine, const token::Tokenizer& tokenizer,
                                          const PassLimits& limits, QuantisedWeights weights) {
  auto model = std::make_unique<OpenModel>(path, dtype, std::move(make_machine), std::nullopt, weights);
  require_same_vocabulary(tokenizer, model->tokenizer());
  auto decoder = load_paged_decoder(*model, draft_use(limits));
  require<ConfigError>(
      decoder->limits().takes_back && decoder->limits().virtual_tokens == 0,
      "{}: a draft model must be able to take tokens back: no linear attention, no table that "
      "depends on the length of the text, no adapter of virtual tokens",
      path.string());
  return std::make_unique<DraftOfFiles>(std::move(model), std::move(decoder));
}

}  // namespace stoa::infer
