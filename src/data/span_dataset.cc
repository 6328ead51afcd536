#include "data/span_dataset.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "data/numpy_random.h"
#include "data/pair_row.h"

namespace stoa::data {

SpanLengths span_lengths(std::int64_t tokens, double density, double mean_length) {
  SpanLengths out;
  out.tokens = tokens;
  const auto noise = static_cast<std::int64_t>(std::nearbyint(static_cast<double>(tokens) * density));
  out.noise = std::clamp<std::int64_t>(noise, 1, std::max<std::int64_t>(1, tokens - 1));
  const auto spans = static_cast<std::int64_t>(std::nearbyint(static_cast<double>(out.noise) / mean_length));
  out.spans = std::clamp<std::int64_t>(spans, 1, std::max<std::int64_t>(1, tokens - out.noise));
  return out;
}

SpanLengths fitting_spans(std::int64_t source_length, double density, double mean_length) {
  require<ConfigError>(source_length >= 4,
                       "sources of {} tokens are too short to remove a span; expected at least 4",
                       source_length);
  constexpr double kMostDensity = 0.9;  // what is left must grow with the text
  require<ConfigError>(density <= kMostDensity,
                       "masked_lm_prob {}: that leaves no source text; expected at most {}", density,
                       kMostDensity);
  SpanLengths best;
  for (std::int64_t tokens = 2;; ++tokens) {
    const SpanLengths lengths = span_lengths(tokens, density, mean_length);
    if (lengths.source() > source_length && tokens > source_length) return best;
    if (lengths.source() <= source_length) best = lengths;
  }
}

std::vector<std::int64_t> random_lengths(std::int64_t total, std::int64_t parts, NumpyRandom& random) {
  std::vector<std::uint8_t> ends(static_cast<std::size_t>(total - 1), 0);
  std::fill_n(ends.begin(), parts - 1, std::uint8_t{1});
  random.shuffle(std::span(ends));
  std::vector<std::int64_t> out{1};
  for (const std::uint8_t end : ends) {
    if (end)
      out.push_back(1);
    else
      ++out.back();
  }
  return out;
}

SpanDataset::SpanDataset(std::shared_ptr<const GptDataset> text, const SpanOptions& options)
    : text_(std::move(text)),
      options_(options),
      lengths_(fitting_spans(options.source_length, options.density, options.mean_length)) {
  require<InternalError>(text_->sequence_length() == lengths_.tokens, "a text of {} tokens for spans of {}",
                         text_->sequence_length(), lengths_.tokens);
  require<ConfigError>(options_.target_length >= lengths_.target(),
                       "targets of {} tokens are too short: sources of {} hide {} tokens in {} spans; give "
                       "t5.seq_length_dec of at least {}",
                       options_.target_length, options_.source_length, lengths_.noise, lengths_.spans,
                       lengths_.target());
  require<ConfigError>(
      static_cast<std::int64_t>(options_.sentinels.size()) >= lengths_.spans,
      "the tokenizer has {} sentinels (<extra_id_0> ...), sources of {} tokens need {}; train it "
      "with --sentinels {} or give shorter sources",
      options_.sentinels.size(), options_.source_length, lengths_.spans, lengths_.spans);
  require<ConfigError>(options_.eos_id >= 0,
                       "the tokenizer has no end-of-text token (</s>), which ends source and target");
}

void SpanDataset::read(std::int64_t k, BatchRow row) const {
  const auto n = static_cast<std::size_t>(lengths_.tokens);
  std::vector<std::int32_t> text(n), ignored(2 * n), boundaries;
  std::vector<float> mask(n);
  text_->read(k, {.tokens = text,
                  .labels = std::span(ignored).first(n),
                  .position_ids = std::span(ignored).last(n),
                  .loss_mask = mask,
                  .cu_seqlens = &boundaries,
                  .token_types = {}});

  NumpyRandom random(static_cast<std::uint32_t>(options_.seed + static_cast<std::uint64_t>(k)));
  const auto noise = random_lengths(lengths_.noise, lengths_.spans, random);
  const auto kept = random_lengths(lengths_.tokens - lengths_.noise, lengths_.spans, random);
  std::vector<std::int32_t> source, labels;
  auto from = text.cbegin();
  const auto append = [&](std::vector<std::int32_t>& to, std::int64_t count) {
    to.insert(to.end(), from, from + count);
    from += count;
  };
  for (std::size_t s = 0; s < kept.size(); ++s) {
    append(source, kept[s]);
    source.push_back(options_.sentinels[s]);
    labels.push_back(options_.sentinels[s]);
    append(labels, noise[s]);
  }
  source.push_back(options_.eos_id);
  labels.push_back(options_.eos_id);
  write_pair(source, labels, static_cast<std::size_t>(options_.source_length), options_.start_id, row);
}

}  // namespace stoa::data
