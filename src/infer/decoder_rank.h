// A model that continues a text, loaded to be measured: token losses of whole texts, and an engine's passes.
#pragma once

#include <optional>

#include "infer/engine/paged_model.h"
#include "infer/open_model.h"
#include "infer/text_losses.h"

namespace stoa::infer {

struct DecoderRankOptions {
  model::ModelSpec model;
  nn::Precision precision;
  TextLosses::Options losses = {};
  std::optional<PassLimits> passes = {};  // none: losses only
  bool tables = true;                     // PagedModel::Options::tables
};

class DecoderRank {
 public:
  // `scratch_bytes`: what measure_scratch found; none on a meta machine.
  DecoderRank(Machine& machine, const DecoderRankOptions& options, std::optional<std::size_t> scratch_bytes);

  // TextLosses::compute.
  void losses(std::span<const std::int32_t> tokens, std::span<const std::int32_t> labels,
              std::span<const std::int64_t> lengths, std::span<float> out) {
    losses_.compute(parts(), tokens, labels, lengths, out);
  }
  std::int64_t pass_tokens() const { return losses_.pass_tokens(); }  // of losses()
  // -log p of every token of a text after its first, given those before it; at most pass_tokens() + 1 tokens.
  std::vector<float> text_losses(std::span<const std::int32_t> ids);
  PassModel& passes() { return passes_.value(); }
  void dry_run();
  LoadedChunk& chunk() { return chunk_; }
  const DecoderRankOptions& options() const { return options_; }

 private:
  PassParts parts() {
    return {chunk_.machine(), chunk_.ops(),        chunk_.parallel(),
            chunk_.chunk(),   chunk_.parameters(), &chunk_.constants()};
  }

  const DecoderRankOptions options_;
  LoadedChunk chunk_;
  TextLosses losses_;
  std::optional<PagedModel> passes_;
};

// What a model is loaded for.
struct DecoderUse {
  bool cache = true;                         // for passes; otherwise losses only
  std::optional<std::int64_t> context = {};  // longest text of the passes; none: the model's positions
  std::int64_t sequences = 1;                // of the passes
  std::int64_t pass_tokens = 512;            // at most the model's positions, but for packed texts
  std::optional<std::int64_t> text_tokens =
      std::nullopt;       // longest text of losses(): several are packed into a pass
  bool tokenizer = true;  // is one needed? It is read before the weights
};
// ConfigError: not a model that continues a text.
std::unique_ptr<DecoderRank> load_decoder(OpenModel& model, const DecoderUse& use);

}  // namespace stoa::infer
