#include "serve/single_pass.h"

namespace stoa::serve {
namespace {

constexpr std::int64_t kPassTokens = 256, kBlockTokens = 16, kScoredRows = 32;

}  // namespace

std::size_t cache_bytes_per_token(const model::ModelSpec& model, nn::Precision precision) {
  const model::CacheSizes sizes = model::cache_sizes(model.config);
  std::size_t layers = 0;
  for (std::int64_t l = 0; l < model.config.num_layers; ++l)
    layers += model.config.linear.is_linear(l) ? 0 : 1;
  return layers * static_cast<std::size_t>(sizes.heads * sizes.width) * size_of(precision.compute) *
         (sizes.shared ? 1 : 2);
}

SinglePass::SinglePass(infer::OpenModel& model, std::int64_t context)
    : rank_(infer::load_decoder(
          model,
          {.cache = true, .context = context, .pass_tokens = kPassTokens, .logit_rows = kScoredRows})) {
  const infer::Decoder& decoder = rank_->decoder();
  limits_.block_tokens = kBlockTokens;
  limits_.blocks = (decoder.context() + kBlockTokens - 1) / kBlockTokens;
  limits_.context = decoder.context();
  limits_.pass_tokens = decoder.pass_tokens();
  limits_.sequences = 1;
  limits_.scored = std::min(kScoredRows, decoder.pass_tokens());
  limits_.vocabulary = model.model().vocabulary;
  limits_.shares = false;
}

std::span<const float> SinglePass::run(const infer::PassPlan& plan) {
  logits_.clear();
  infer::Decoder& decoder = rank_->decoder();
  for (const infer::PassSegment& segment : plan.segments) {
    require<InternalError>(decoder.rewind(segment.begin) == segment.begin,
                           "{} tokens are not in the cache of the decoder", segment.begin);
    if (segment.scored <= 1) {
      const auto row = decoder.feed(rank_->parts(), segment.tokens);
      if (segment.scored == 1) logits_.insert(logits_.end(), row.begin(), row.end());
      continue;
    }
    std::int64_t skip = std::ssize(segment.tokens) - segment.scored;
    decoder.feed_scored(rank_->parts(), segment.tokens, [&](std::span<const float> row) {
      if (skip-- <= 0) logits_.insert(logits_.end(), row.begin(), row.end());
    });
  }
  return logits_;
}

void SinglePass::share_out(std::int64_t tasks, const std::function<void(std::int64_t)>& body) {
  for (std::int64_t i = 0; i < tasks; ++i) body(i);
}

}  // namespace stoa::serve
