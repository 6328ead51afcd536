// Token losses of whole texts, several packed into a pass. Memory is declared once. Where the model has
// virtual tokens (nn/adapter_policy.h), they are put in front of every text here: callers do not see them.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "device/arena.h"
#include "infer/length_tables.h"
#include "infer/pass_parts.h"

namespace stoa::infer {

class TextLosses {
 public:
  struct Options {
    std::int64_t pass_tokens = 512;  // most tokens of one pass
    std::int64_t text_tokens = 0;    // longest text; 0: pass_tokens. Several share a pass

    std::int64_t longest_text() const {
      return text_tokens > 0 ? std::min(text_tokens, pass_tokens) : pass_tokens;
    }
  };
  // Declares batch buffers in `arena`.
  TextLosses(Arena& arena, const model::ModelSpec& model, nn::Precision precision, const Options& options);

  std::int64_t pass_tokens() const { return options_.pass_tokens; }
  // Whether rotary tables depend on the length of a sequence.
  bool follows_length() const { return tables_.any(); }

  // losses[t] = -log p(labels[t] | tokens of the same text up to t), for concatenated texts: `lengths` add up
  // to tokens.size() <= pass_tokens, each at most longest_text(). Texts that need different rotary tables are
  // processed in separate passes.
  void compute(const PassParts& parts, std::span<const std::int32_t> tokens,
               std::span<const std::int32_t> labels, std::span<const std::int64_t> lengths,
               std::span<float> losses);

  // The largest pass, for a dry run on a meta machine.
  void dry_run(const PassParts& parts);

 private:
  std::int64_t virtual_tokens() const { return static_cast<std::int64_t>(virtual_.size()); }
  // Most tokens of a pass, virtual ones included.
  std::int64_t pass_rows() const { return options_.pass_tokens + virtual_tokens(); }
  // compute() of texts that have their virtual tokens.
  void losses_of_all(const PassParts& parts, std::span<const std::int32_t> tokens,
                     std::span<const std::int32_t> labels, std::span<const std::int64_t> lengths,
                     std::span<float> losses);
  // If neighbouring texts need different tables, computes the losses in several passes and returns true.
  bool losses_by_length(const PassParts& parts, std::span<const std::int32_t> tokens,
                        std::span<const std::int32_t> labels, std::span<const std::int64_t> lengths,
                        std::span<float> losses);
  nn::BatchView stage(const PassParts& parts, std::span<const std::int32_t> tokens,
                      std::span<const std::int32_t> positions);
  void stage_segments(const PassParts& parts, nn::BatchView& view, std::span<const std::int32_t> q_begin,
                      std::span<const std::int32_t> k_begin, std::span<const std::int32_t> k_count);

  Arena* arena_;
  const Options options_;
  std::vector<std::int32_t> virtual_;  // ids of the virtual tokens
  const LengthTables tables_;
  Arena::Id tokens_, positions_, labels_, mask_, q_begin_, k_begin_, k_count_, losses_;
};

}  // namespace stoa::infer
