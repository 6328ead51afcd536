// An encoder-decoder loaded for inference: reads sources once, then takes tokens of targets and returns
// logits of the next ones. Keys and values of both are cached. Also computes token losses of pairs.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "infer/device_segments.h"
#include "infer/loaded_chunk.h"

namespace stoa::infer {

struct EncoderDecoderOptions {
  model::ModelSpec model;
  nn::Precision precision;
  std::int64_t sources = 1;          // of one read()
  std::int64_t source_tokens = 512;  // of the longest source, without virtual tokens of an adapter
  std::int64_t targets = 1;          // at once, at least `sources`
  std::int64_t target_tokens = 128;  // of the longest target
};

class EncoderDecoderRank {
 public:
  // `scratch_bytes`: the result of measure_scratch; none on a meta machine.
  EncoderDecoderRank(Machine& machine, const EncoderDecoderOptions& options,
                     std::optional<std::size_t> scratch_bytes);

  // Resets, reads sources, each behind the adapter's virtual tokens, and begins a target for each with the
  // token `start`. Returns logits [sources, vocabulary] of the next token. InternalError beyond the declared
  // sizes, here and below.
  std::span<const float> read(const std::vector<std::vector<std::int32_t>>& sources, std::int32_t start);
  // Appends tokens[i] to target i; returns logits [targets, vocabulary] of the next token.
  std::span<const float> feed(std::span<const std::int32_t> tokens);
  // Target i becomes a copy of target parents[i]; targets that are not in `parents` end.
  void select(std::span<const std::int32_t> parents);
  std::int64_t fed() const { return fed_; }  // per target

  // losses[t] = -log p(labels[t] | source, inputs up to t); inputs begin with the start token. Resets.
  void losses(const std::vector<std::int32_t>& source, std::span<const std::int32_t> inputs,
              std::span<const std::int32_t> labels, std::span<float> losses);

  void dry_run();
  LoadedChunk& chunk() { return chunk_; }
  const EncoderDecoderOptions& options() const { return options_; }

 private:
  struct Sources {
    std::vector<std::int32_t> tokens, positions;
    parallel::ContextSegments segments;
  };
  // Places in the cache: a target's keys and values are at [lane * target_tokens, ...), those of its source
  // at k_begin.
  struct Target {
    std::int32_t lane;
    std::int64_t k_begin, k_count;
  };
  Sources sources_of(const std::vector<std::vector<std::int32_t>>& sources) const;
  // One pass over new sources (or none) and `count` tokens of each target.
  struct Staged;
  void stage(Staged& staged, const Sources& sources, std::span<const std::int32_t> tokens,
             std::int64_t count);
  std::span<const float> next(const Sources& sources, std::span<const std::int32_t> tokens);

  const EncoderDecoderOptions options_;
  const std::int64_t virtual_tokens_, source_room_;  // tokens before a source; of a source with them
  LoadedChunk chunk_;
  Arena::Id tokens_, positions_, labels_, mask_, losses_, logits_;
  std::optional<DeviceSegments> source_segments_, target_segments_, cross_segments_;
  struct LayerIds {
    Arena::Id keys, values, source;
  };
  std::vector<LayerIds> cache_ids_;  // of the decoder's layers
  nn::KvCache cache_;
  std::vector<Target> targets_;
  std::int64_t fed_ = 0;
};

}  // namespace stoa::infer
