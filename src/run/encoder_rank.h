// An encoder loaded for use: final states of every token of a text, and what stands at its masks.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/chunk.h"
#include "optim/parameter_store.h"
#include "run/machine.h"

namespace stoa::run {

struct EncoderOptions {
  model::Gpt model;
  nn::Precision precision;
  std::int64_t pass_tokens = 4096;  // of the texts of one pass together
  std::int64_t longest = 512;       // text
  std::int64_t masks = 0;           // most tokens of predict(); 0: states alone
};

class EncoderRank {
 public:
  // `scratch_bytes`: what a dry run found; none on a meta machine.
  EncoderRank(Machine& machine, const EncoderOptions& options, std::optional<std::size_t> scratch_bytes);
  static std::size_t measure_scratch(Machine& meta, const EncoderOptions& options);

  // Final states [tokens, hidden] of texts that lie back to back: `lengths` add up to tokens.size() <=
  // pass_tokens. InternalError beyond the declared sizes.
  std::span<const float> states(std::span<const std::int32_t> tokens, std::span<const std::int64_t> lengths);
  // Logits [rows.size(), vocabulary] of chosen tokens of one text, ascending. ConfigError: the model has no
  // head.
  std::span<const float> predict(std::span<const std::int32_t> tokens, std::span<const std::int32_t> rows);

  optim::ParameterStore& parameters() { return *parameters_; }
  const EncoderOptions& options() const { return options_; }

 private:
  void pass(std::span<const std::int32_t> tokens, std::span<const std::int64_t> lengths,
            std::span<const std::int32_t> rows);
  std::span<const float> read(TensorView view, std::int64_t columns);

  Machine& machine_;
  const EncoderOptions options_;
  parallel::ParallelContext parallel_;
  Arena arena_;
  std::unique_ptr<model::Chunk> chunk_;
  std::unique_ptr<optim::ParameterStore> parameters_;
  Arena::Id tokens_, positions_, types_, q_begin_, k_begin_, k_count_, states_, logits_;
  std::unique_ptr<Scratch> scratch_;
  std::unique_ptr<ops::OpContext> ops_;
  std::vector<float> host_;
};

}  // namespace stoa::run
