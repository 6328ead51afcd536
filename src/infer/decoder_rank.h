// A model that continues a text, loaded for use: weights, cache, decoder.
#pragma once

#include <optional>

#include "infer/decoder.h"
#include "infer/open_model.h"

namespace stoa::infer {

struct DecoderRankOptions {
  model::ModelSpec model;
  nn::Precision precision;
  Decoder::Options decoder;
};

class DecoderRank {
 public:
  // `scratch_bytes`: what measure_scratch found; none on a meta machine.
  DecoderRank(Machine& machine, const DecoderRankOptions& options, std::optional<std::size_t> scratch_bytes);

  std::span<const float> feed(std::span<const std::int32_t> tokens) { return decoder_.feed(parts(), tokens); }
  void losses(std::span<const std::int32_t> tokens, std::span<const std::int32_t> labels,
              std::span<const std::int64_t> lengths, std::span<float> out) {
    decoder_.losses(parts(), tokens, labels, lengths, out);
  }
  // -log p of every token of a text after its first, given those before it; at most pass_tokens() + 1 tokens.
  std::vector<float> text_losses(std::span<const std::int32_t> ids);
  void dry_run() { decoder_.dry_run(parts()); }
  Decoder& decoder() { return decoder_; }
  Decoder::Parts parts() {
    return {chunk_.machine(), chunk_.ops(),        chunk_.parallel(),
            chunk_.chunk(),   chunk_.parameters(), &chunk_.constants()};
  }
  LoadedChunk& chunk() { return chunk_; }
  const DecoderRankOptions& options() const { return options_; }

 private:
  const DecoderRankOptions options_;
  LoadedChunk chunk_;
  Decoder decoder_;
};

// What a model is loaded for.
struct DecoderUse {
  bool cache = true;                    // for generation; otherwise losses only
  std::optional<std::int64_t> context;  // tokens of the cache; none: the model's positions
  std::int64_t pass_tokens = 512;       // at most the model's positions, but for packed texts
  std::optional<std::int64_t> text_tokens =
      std::nullopt;             // longest text of losses(): several are packed into a pass
  std::int64_t logit_rows = 1;  // most tokens of a pass of feed_scored()
  bool tokenizer = true;        // is one needed? It is read before the weights
};
// ConfigError: not a model that continues a text.
std::unique_ptr<DecoderRank> load_decoder(OpenModel& model, const DecoderUse& use);

}  // namespace stoa::infer
