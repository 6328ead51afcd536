// An encoder loaded for use: final states of every token of a text, and what stands at its masks.
#pragma once

#include <optional>
#include <span>

#include "infer/open_model.h"

namespace stoa::infer {

struct EncoderOptions {
  model::Gpt model;
  nn::Precision precision;
  std::int64_t pass_tokens = 4096;  // of the texts of one pass together
  std::int64_t longest = 512;       // text
  std::int64_t masks = 0;           // most tokens of predict() at once; 0: states alone
  std::int64_t answers = 0;         // most tokens of answers(), of a labelled task's model
};

class EncoderRank {
 public:
  // `scratch_bytes`: what measure_scratch found; none on a meta machine.
  EncoderRank(Machine& machine, const EncoderOptions& options, std::optional<std::size_t> scratch_bytes);

  // Final states [tokens, hidden] of texts that lie back to back: `lengths` add up to tokens.size() <=
  // pass_tokens. InternalError beyond the declared sizes.
  std::span<const float> states(std::span<const std::int32_t> tokens, std::span<const std::int64_t> lengths);
  // Logits [rows.size(), vocabulary] of chosen tokens, ascending, of texts that lie back to back as in
  // states(). ConfigError: the model has no head.
  std::span<const float> predict(std::span<const std::int32_t> tokens, std::span<const std::int64_t> lengths,
                                 std::span<const std::int32_t> rows);

  // Of a labelled task's model: logits [rows.size(), classes] of chosen tokens, ascending, of texts that lie
  // back to back as in states(); `types`: of every token.
  std::span<const float> answers(std::span<const std::int32_t> tokens, std::span<const std::int32_t> types,
                                 std::span<const std::int64_t> lengths, std::span<const std::int32_t> rows);

  void dry_run();
  LoadedChunk& chunk() { return chunk_; }
  const EncoderOptions& options() const { return options_; }

 private:
  // `types`: of every token, or none: all 0.
  void pass(std::span<const std::int32_t> tokens, std::span<const std::int32_t> types,
            std::span<const std::int64_t> lengths, std::span<const std::int32_t> rows);

  const EncoderOptions options_;
  LoadedChunk chunk_;
  Arena::Id tokens_, positions_, types_, q_begin_, k_begin_, k_count_, states_, logits_;
};

constexpr std::int64_t kMasksAtOnce = 64;  // logits of this many tokens are small, a pass is full

// What an encoder is loaded for beside its states.
struct EncoderUse {
  std::int64_t masks = 0;  // most tokens to be predicted at once
  bool answers = false;    // of the head of a labelled task
};
// The tokenizer is read before the weights. ConfigError: not an encoder, or one without that head.
std::unique_ptr<EncoderRank> load_encoder(OpenModel& model, const EncoderUse& use);
// Of the token that hides others. ConfigError: the tokenizer has none.
token::TokenId mask_id(OpenModel& model);

}  // namespace stoa::infer
