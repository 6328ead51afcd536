#include "infer/decoder_rank.h"

#include <algorithm>

namespace stoa::infer {

DecoderRank::DecoderRank(Machine& machine, const DecoderRankOptions& options,
                         std::optional<std::size_t> scratch_bytes)
    : options_(options),
      chunk_(machine, options_.model, options_.precision,
             options_.decoder.pass_tokens + options_.model.config.peft.virtual_count(),
             std::max(options_.decoder.context, options_.decoder.longest_text()) +
                 options_.model.config.peft.virtual_count()),
      decoder_(chunk_.arena(), options_.model, options_.precision, options_.decoder) {
  chunk_.commit(scratch_bytes);
}

std::vector<float> DecoderRank::text_losses(std::span<const std::int32_t> ids) {
  if (ids.size() < 2) return {};
  // The last token predicts nothing here, but a rotary table may depend on it: it is read by the length of
  // the whole text.
  const bool whole = decoder_.follows_length() && std::ssize(ids) <= decoder_.pass_tokens();
  const std::int64_t n = std::ssize(ids) - (whole ? 0 : 1);
  std::vector<std::int32_t> labels(ids.begin() + 1, ids.end());
  if (whole) labels.push_back(ids.front());
  std::vector<float> out(static_cast<std::size_t>(n));
  losses(ids.first(out.size()), labels, std::span(&n, 1), out);
  out.resize(ids.size() - 1);
  return out;
}

std::unique_ptr<DecoderRank> load_decoder(OpenModel& model, const DecoderUse& use) {
  model.require_kind(model::ModelKind::kGpt);
  if (use.tokenizer) model.tokenizer();
  DecoderRankOptions options{model.model(), model.precision(), {}};
  const std::int64_t positions =
      usable_positions(options.model.config) - options.model.config.peft.virtual_count();
  options.decoder.context = use.cache ? std::min(positions, use.context.value_or(positions)) : 0;
  options.decoder.text_tokens = std::min(positions, use.text_tokens.value_or(positions));
  options.decoder.pass_tokens = use.text_tokens ? std::max(use.pass_tokens, options.decoder.text_tokens)
                                                : std::min(positions, use.pass_tokens);
  options.decoder.logit_rows = std::min(use.logit_rows, std::max<std::int64_t>(1, options.decoder.context));
  return model.load<DecoderRank>(options);
}

}  // namespace stoa::infer
