// Feeds tokens to a model with a cache of the keys and values of earlier tokens: the core of generation. Also
// computes token losses of whole texts. Memory is declared once; one sequence at a time. Where the model has
// virtual tokens (nn/adapter_policy.h), they are put in front of every text here: callers do not see them.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "device/arena.h"
#include "infer/length_tables.h"
#include "infer/machine.h"
#include "model/chunk.h"

namespace stoa::infer {

class Decoder {
 public:
  struct Options {
    std::int64_t context = 1024;     // tokens that the cache holds; 0: no cache (losses only)
    std::int64_t pass_tokens = 512;  // most tokens of one pass
    std::int64_t text_tokens = 0;    // longest text of losses(); 0: pass_tokens. Several share a pass
    std::int64_t logit_rows = 1;     // most tokens of a pass of feed_scored()

    std::int64_t longest_text() const {
      return text_tokens > 0 ? std::min(text_tokens, pass_tokens) : pass_tokens;
    }
  };
  // Declares cache and batch buffers in `arena`.
  Decoder(Arena& arena, const model::ModelSpec& model, nn::Precision precision, const Options& options);

  // What a pass runs with. All references live as long as the decoder is used.
  struct Parts {
    Machine& machine;
    ops::OpContext& ops;
    const parallel::ParallelContext& parallel;
    const model::Chunk& chunk;
    nn::ParamAccess& parameters;
    // Rotary tables of the chunk that depend on the sequence length and are updated here; null: they stay as
    // they are (a training rank needs them for the length of its samples).
    const ChunkConstants* constants = nullptr;
  };

  std::int64_t context() const { return options_.context; }
  std::int64_t pass_tokens() const { return options_.pass_tokens; }
  std::int64_t fed() const { return std::max<std::int64_t>(0, cached_ - virtual_tokens()); }
  // Whether rotary tables depend on the length of a sequence.
  bool follows_length() const { return tables_.any(); }
  // Drops all but the first `keep` tokens; returns how many remain. The state of linear attention cannot be
  // shortened: with such layers everything is dropped unless `keep` covers all tokens fed.
  std::int64_t rewind(std::int64_t keep = 0);

  // Appends tokens; returns the logits after the last one, over the vocabulary. If rotary tables depend on
  // the length, the table of the length reached applies to all tokens so far, and cached keys that were made
  // with a different table are recomputed (LengthTables). DataError beyond the context.
  std::span<const float> feed(const Parts& parts, std::span<const std::int32_t> tokens);
  // The same; `scored` gets the logits after every token, in order. In passes of options.logit_rows tokens.
  using Scored = std::function<void(std::span<const float> logits)>;
  void feed_scored(const Parts& parts, std::span<const std::int32_t> tokens, const Scored& scored);

  // losses[t] = -log p(labels[t] | tokens of the same text up to t), for concatenated texts: `lengths` add up
  // to tokens.size() <= pass_tokens, each at most longest_text(). The cache is not used. Texts that need
  // different rotary tables are processed in separate passes.
  void losses(const Parts& parts, std::span<const std::int32_t> tokens, std::span<const std::int32_t> labels,
              std::span<const std::int64_t> lengths, std::span<float> losses);

  // Largest pass of each kind, for a dry run on a meta machine.
  void dry_run(const Parts& parts);

 private:
  std::int64_t virtual_tokens() const { return static_cast<std::int64_t>(virtual_.size()); }
  // Most tokens of a pass, and in the cache, virtual ones included.
  std::int64_t pass_rows() const { return options_.pass_tokens + virtual_tokens(); }
  std::int64_t cache_rows() const { return options_.context + virtual_tokens(); }
  // losses() of texts that have their virtual tokens.
  void losses_of_all(const Parts& parts, std::span<const std::int32_t> tokens,
                     std::span<const std::int32_t> labels, std::span<const std::int64_t> lengths,
                     std::span<float> losses);
  // If neighbouring texts need different tables, computes the losses in several passes and returns true.
  bool losses_by_length(const Parts& parts, std::span<const std::int32_t> tokens,
                        std::span<const std::int32_t> labels, std::span<const std::int64_t> lengths,
                        std::span<float> losses);
  void open_cache(const Parts& parts);
  // Feeds in passes of at most `pass` tokens; `scored`: for every token, or none: for the last one. The first
  // puts virtual tokens in front of a text, the second has them among its tokens and scores none of them.
  void feed_text(const Parts& parts, std::span<const std::int32_t> tokens, std::int64_t pass,
                 const Scored* scored);
  void feed_passes(const Parts& parts, std::span<const std::int32_t> tokens, std::int64_t pass,
                   const Scored* scored);
  nn::BatchView stage(const Parts& parts, std::span<const std::int32_t> tokens,
                      std::span<const std::int32_t> positions);
  void stage_segments(const Parts& parts, nn::BatchView& view, std::span<const std::int32_t> q_begin,
                      std::span<const std::int32_t> k_begin, std::span<const std::int32_t> k_count);

  Arena* arena_;
  const Options options_;
  const std::int64_t vocabulary_;
  std::vector<std::int32_t> virtual_;  // ids of the virtual tokens
  const LengthTables tables_;
  Arena::Id tokens_, positions_, labels_, mask_, q_begin_, k_begin_, k_count_, logits_, losses_;
  std::vector<bool> linear_;                                // layers of linear attention
  std::vector<std::pair<Arena::Id, Arena::Id>> cache_ids_;  // keys and values, or linear attention's state
  nn::KvCache cache_;
  std::int64_t cached_ = 0;            // tokens in the cache, virtual ones included
  std::vector<std::int32_t> history_;  // they, kept if tables depend on the length
  std::int64_t reached_ = 0;           // longest sequence for which a key in the cache was made
  std::vector<float> host_logits_;
};

}  // namespace stoa::infer
