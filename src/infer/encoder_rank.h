// An encoder loaded for inference: final states of tokens, predictions at masks, labelled tasks.
#pragma once

#include <optional>
#include <span>

#include "infer/open_model.h"

namespace stoa::infer {

struct EncoderOptions {
  model::ModelSpec model;
  nn::Precision precision;
  std::int64_t pass_tokens = 4096;  // total over the texts of a pass
  std::int64_t longest = 512;       // tokens of a text
  std::int64_t masks = 0;           // most tokens of predict() at once; 0: states alone
  std::int64_t answers = 0;         // most tokens of answers() at once; labelled tasks only
  std::int64_t pairs = 0;           // most pairs of follows() at once
};

class EncoderRank {
 public:
  // `scratch_bytes`: the result of measure_scratch; none on a meta machine.
  EncoderRank(Machine& machine, const EncoderOptions& options, std::optional<std::size_t> scratch_bytes);

  // Final states [tokens, hidden] of concatenated texts: `lengths` add up to tokens.size() <= pass_tokens.
  // InternalError beyond the declared sizes.
  std::span<const float> states(std::span<const std::int32_t> tokens, std::span<const std::int64_t> lengths);
  // Logits [rows.size(), vocabulary] of the tokens `rows`, ascending, of concatenated texts as in states().
  // ConfigError: the model has no head.
  std::span<const float> predict(std::span<const std::int32_t> tokens, std::span<const std::int64_t> lengths,
                                 std::span<const std::int32_t> rows);

  // For models of labelled tasks: logits [rows.size(), classes] of the tokens `rows`, ascending, of
  // concatenated texts as in states(); `types`: the type of every token.
  std::span<const float> answers(std::span<const std::int32_t> tokens, std::span<const std::int32_t> types,
                                 std::span<const std::int64_t> lengths, std::span<const std::int32_t> rows);

  // Logits [lengths.size(), 2] of pairs of sentences, concatenated as in states(): the second follows the
  // first, or not.
  std::span<const float> follows(std::span<const std::int32_t> tokens, std::span<const std::int32_t> types,
                                 std::span<const std::int64_t> lengths);

  void dry_run();
  LoadedChunk& chunk() { return chunk_; }
  const EncoderOptions& options() const { return options_; }

 private:
  // `types`: of every token, or none: all 0. `pairs`: whether the texts are pairs to be judged.
  void pass(std::span<const std::int32_t> tokens, std::span<const std::int32_t> types,
            std::span<const std::int64_t> lengths, std::span<const std::int32_t> rows, bool pairs = false);

  const EncoderOptions options_;
  LoadedChunk chunk_;
  Arena::Id tokens_, positions_, types_, q_begin_, k_begin_, k_count_, states_, logits_, follows_;
};

constexpr std::int64_t kMasksAtOnce = 64;  // enough to fill a pass; logits stay small

// What an encoder is loaded for in addition to states().
struct EncoderUse {
  std::int64_t masks = 0;  // most tokens to be predicted at once
  bool answers = false;    // the head of a labelled task is needed
  bool states = false;     // nothing but states(), which a decoder may give, too
  std::int64_t pairs = 0;  // most pairs of sentences to be judged at once
};
// How an EncoderRank is built: what OpenModel::measure() needs. ConfigError: as below.
EncoderOptions encoder_options(const OpenModel& model, const EncoderUse& use);
// Reads the tokenizer before the weights. ConfigError: not an encoder, or the head is missing.
std::unique_ptr<EncoderRank> load_encoder(OpenModel& model, const EncoderUse& use);
// The id of the mask token. ConfigError: the tokenizer has none.
token::TokenId mask_id(OpenModel& model);

}  // namespace stoa::infer
