#include "infer/decoder_rank.h"

#include <algorithm>

#include "infer/engine/paged_decoder.h"

namespace stoa::infer {

DecoderRank::DecoderRank(Machine& machine, const DecoderRankOptions& options,
                         std::optional<std::size_t> scratch_bytes)
    : options_(options),
      chunk_(machine, options_.model, options_.precision,
             std::max(options_.losses.pass_tokens + options_.model.config.peft.virtual_count(),
                      options_.passes ? options_.passes->pass_tokens : 0),
             std::max(options_.losses.longest_text() + options_.model.config.peft.virtual_count(),
                      options_.passes ? options_.passes->context : 0)),
      losses_(chunk_.arena(), options_.model, options_.precision, options_.losses) {
  if (options_.passes)
    passes_.emplace(
        chunk_.arena(),
        PagedModel::Options{options_.model, options_.precision, *options_.passes, options_.tables},
        [this] { return parts(); });
  chunk_.commit(scratch_bytes);
}

void DecoderRank::dry_run() {
  losses_.dry_run(parts());
  if (passes_) passes_->dry_run();
}

std::vector<float> DecoderRank::text_losses(std::span<const std::int32_t> ids) {
  if (ids.size() < 2) return {};
  // The last token predicts nothing here, but a rotary table may depend on it: it is read by the length of
  // the whole text.
  const bool whole = losses_.follows_length() && std::ssize(ids) <= pass_tokens();
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
  DecoderRankOptions options{model.model(), model.precision(), {}, {}, model.on_host()};
  const std::int64_t positions =
      usable_positions(options.model.config) - options.model.config.peft.virtual_count();
  options.losses.text_tokens = std::min(positions, use.text_tokens.value_or(positions));
  options.losses.pass_tokens = use.text_tokens ? std::max(use.pass_tokens, options.losses.text_tokens)
                                               : std::min(positions, use.pass_tokens);
  if (use.cache)
    options.passes = pass_limits(
        options.model, options.precision.compute, options.tables,
        {.context = use.context, .sequences = use.sequences, .pass_tokens = use.pass_tokens, .scored = 1});
  return model.load<DecoderRank>(options);
}

}  // namespace stoa::infer
