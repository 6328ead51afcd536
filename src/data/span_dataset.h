// Samples of an encoder-decoder by span corruption (Raffel et al. 2020, section 3.1.4): in the source, spans
// of a text are replaced by sentinels; the target has every sentinel, followed by the span it replaces.
#pragma once

#include <memory>
#include <vector>

#include "data/gpt_dataset.h"

namespace stoa::data {

struct SpanOptions {
  std::int64_t source_length = 512, target_length = 128;  // tokens in a row; what is short is padded
  double density = 0.15;                                  // share of the tokens that is cut out
  double mean_length = 3;                                 // of a span
  std::uint32_t seed = 1234;
  std::vector<std::int32_t> sentinels;  // <extra_id_0>, <extra_id_1> ...
  std::int32_t eos_id = -1;
  std::int32_t start_id = 0;  // first input of the decoder, and padding
};

// How a text of `tokens` tokens is divided into source and target.
struct SpanLengths {
  std::int64_t tokens = 0, noise = 0, spans = 0;
  std::int64_t source() const { return tokens - noise + spans + 1; }  // with </s>
  std::int64_t target() const { return noise + spans + 1; }
};
SpanLengths span_lengths(std::int64_t tokens, double density, double mean_length);
// The same for the longest text whose source fits `source_length`.
SpanLengths fitting_spans(std::int64_t source_length, double density, double mean_length);

// Which spans are cut out is a function of (seed + sample) mod 2^32, numpy's RandomState.
class SpanDataset final : public Dataset {
 public:
  // `text`: samples of fitting_spans(...).tokens tokens. ConfigError: too few sentinels, a target too short
  // for the source, no end-of-text token.
  SpanDataset(std::shared_ptr<const GptDataset> text, const SpanOptions& options);

  std::int64_t size() const override { return text_->size(); }
  std::int64_t sequence_length() const override { return options_.source_length + options_.target_length; }
  void read(std::int64_t k, BatchRow row) const override;
  std::vector<Piece> pieces(std::int64_t k) const override { return text_->pieces(k); }

 private:
  std::shared_ptr<const GptDataset> text_;
  SpanOptions options_;
  SpanLengths lengths_;
};

// Splits `total` into `parts` positive lengths by shuffling parts - 1 cuts over total - 1 positions.
class NumpyRandom;
std::vector<std::int64_t> random_lengths(std::int64_t total, std::int64_t parts, NumpyRandom& random);

}  // namespace stoa::data
