// A model loaded for use: weights, cache, decoder.
#pragma once

#include <optional>

#include "infer/decoder.h"
#include "infer/loaded_chunk.h"

namespace stoa::infer {

struct InferenceOptions {
  model::Gpt model;
  nn::Precision precision;
  Decoder::Options decoder;
};

class InferenceRank {
 public:
  // `scratch_bytes`: what measure_scratch found; none on a meta machine.
  InferenceRank(Machine& machine, const InferenceOptions& options, std::optional<std::size_t> scratch_bytes);

  std::span<const float> feed(std::span<const std::int32_t> tokens) { return decoder_.feed(parts(), tokens); }
  void losses(std::span<const std::int32_t> tokens, std::span<const std::int32_t> labels,
              std::span<const std::int64_t> lengths, std::span<float> out) {
    decoder_.losses(parts(), tokens, labels, lengths, out);
  }
  void dry_run() { decoder_.dry_run(parts()); }
  Decoder& decoder() { return decoder_; }
  Decoder::Parts parts() {
    return {chunk_.machine(), chunk_.ops(),        chunk_.parallel(),
            chunk_.chunk(),   chunk_.parameters(), &chunk_.constants()};
  }
  LoadedChunk& chunk() { return chunk_; }
  const InferenceOptions& options() const { return options_; }

 private:
  const InferenceOptions options_;
  LoadedChunk chunk_;
  Decoder decoder_;
};

}  // namespace stoa::infer
