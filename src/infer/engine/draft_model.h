// Guesses by a smaller model of the same vocabulary, which draws as the large one will: with its sampler and
// the random numbers of the same places (Leviathan et al. 2023, Chen et al. 2023, with draws that are
// coupled).
#pragma once

#include <map>
#include <memory>

#include "infer/engine/drafter.h"
#include "infer/engine/paged_decoder.h"
#include "infer/engine/scheduler.h"
#include "infer/open_model.h"

namespace stoa::infer {

class DraftModel final : public Drafter {
 public:
  // `model` is used by the drafter alone.
  explicit DraftModel(std::unique_ptr<PassModel> model);

  // Texts for which its own memory has no room get no guesses.
  void propose(std::span<DraftWish> wishes) override;
  void use_in_this_thread() override { model_->use_in_this_thread(); }
  void forget(SequenceId sequence) override;

 private:
  struct Open {
    DraftWish* wish;
    SequenceId own;
    TokenSampler sampler;
  };
  void follow(DraftWish& wish, std::map<SequenceId, Open>& open);

  const std::unique_ptr<PassModel> model_;
  Scheduler scheduler_;
  std::map<SequenceId, SequenceId> own_;  // sequences of the engine and of the scheduler here
};

// What a model is loaded for that guesses for one with these limits.
EngineUse draft_use(const PassLimits& limits);
// A model of files that guesses for one with this tokenizer and these limits; `dtype` and `weights` as of
// OpenModel. ConfigError: its vocabulary is another (names the first token that differs), it begins texts
// with virtual tokens, or keeps a state that cannot be taken back.
std::unique_ptr<Drafter> load_draft_model(const fs::path& path, std::optional<DType> dtype,
                                          MakeMachine make_machine, const token::Tokenizer& tokenizer,
                                          const PassLimits& limits, QuantisedWeights weights);

}  // namespace stoa::infer
