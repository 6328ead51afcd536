// A model loaded for use: weights, cache, decoder.
#pragma once

#include <memory>
#include <optional>

#include "optim/parameter_store.h"
#include "run/decoder.h"

namespace stoa::run {

struct InferenceOptions {
  model::Gpt model;
  nn::Precision precision;
  Decoder::Options decoder;
};

class InferenceRank {
 public:
  // `scratch_bytes`: what a dry run found; none on a meta machine.
  InferenceRank(Machine& machine, const InferenceOptions& options, std::optional<std::size_t> scratch_bytes);
  static std::size_t measure_scratch(Machine& meta, const InferenceOptions& options);

  std::span<const float> feed(std::span<const std::int32_t> tokens) {
    return decoder_->feed(parts(), tokens);
  }
  void losses(std::span<const std::int32_t> tokens, std::span<const std::int32_t> labels,
              std::span<const std::int64_t> lengths, std::span<float> out) {
    decoder_->losses(parts(), tokens, labels, lengths, out);
  }
  Decoder& decoder() { return *decoder_; }
  Decoder::Parts parts() { return {machine_, *ops_, parallel_, *chunk_, *parameters_}; }
  optim::ParameterStore& parameters() { return *parameters_; }
  const model::Chunk& chunk() const { return *chunk_; }
  Arena& arena() { return arena_; }
  Machine& machine() { return machine_; }
  const InferenceOptions& options() const { return options_; }

 private:
  Machine& machine_;
  const InferenceOptions options_;
  parallel::ParallelContext parallel_;
  Arena arena_;
  std::unique_ptr<model::Chunk> chunk_;
  std::unique_ptr<optim::ParameterStore> parameters_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<Scratch> scratch_;
  std::unique_ptr<ops::OpContext> ops_;
};

}  // namespace stoa::run
