// The host batch: what one micro-batch hands to the model. Buffers keep their capacity from step to step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace stoa::data {

// One row of a batch, to be filled by a data set. All spans have s elements.
struct BatchRow {
  std::span<std::int32_t> tokens, labels, position_ids;
  std::span<float> loss_mask;
  std::vector<std::int32_t>* cu_seqlens;  // the row's boundaries are appended: 0, …, s
  // Only for masked language models, else empty. The row's last boundary may be below s: the rest is padding.
  std::span<std::int32_t> token_types;
  std::int32_t* sentence_label = nullptr;
};

struct Batch {
  std::int64_t rows = 0;                      // b
  std::int64_t sequence_length = 0;           // s
  std::vector<std::int32_t> tokens, labels;   // [b, s]
  std::vector<std::int32_t> position_ids;     // [b, s]
  std::vector<float> loss_mask;               // [b, s], 0 or 1
  bool masked = false;                        // masked language model: the two fields below are filled
  std::vector<std::int32_t> token_types;      // [b, s]
  std::vector<std::int32_t> sentence_labels;  // [b]: 1 where the second segment came first in the text
  // Attention boundaries: those of row r are cu_seqlens[cu_offsets[r]] … cu_seqlens[cu_offsets[r + 1] - 1],
  // rising from 0 to s, or to the row's end where rows are padded. A query at position i sees keys from the
  // largest boundary <= i on. Without attention reset: {0, s}.
  std::vector<std::int32_t> cu_seqlens, cu_offsets;
  // Embedding models, of a training pass: nn::MaskedTargets::vector_gradients of all rows; else empty.
  std::vector<float> vector_gradients;
  // Distillation by kept predictions; else empty: of every token k ids and k + 1 log-probabilities, those of
  // nn::Distillation.
  std::vector<std::int32_t> kept_ids;
  std::vector<float> kept_log_probabilities;
  std::vector<std::int64_t> samples;  // [b] index of each row in its data set
  std::int64_t valid_tokens = 0;      // N: positions with loss mask 1

  void resize(std::int64_t b, std::int64_t s, bool masked_language_model = false) {
    rows = b;
    sequence_length = s;
    const auto n = static_cast<std::size_t>(b * s);
    tokens.resize(n);
    labels.resize(n);
    position_ids.resize(n);
    loss_mask.resize(n);
    samples.resize(static_cast<std::size_t>(b));
    masked = masked_language_model;
    token_types.resize(masked ? n : 0);
    sentence_labels.resize(masked ? static_cast<std::size_t>(b) : 0);
    vector_gradients.clear();
    kept_ids.clear();
    kept_log_probabilities.clear();
    cu_seqlens.clear();
    cu_offsets.assign(1, 0);
    valid_tokens = 0;
  }

  BatchRow row(std::int64_t r) {
    const auto s = static_cast<std::size_t>(sequence_length), at = static_cast<std::size_t>(r) * s;
    BatchRow out{std::span(tokens).subspan(at, s),
                 std::span(labels).subspan(at, s),
                 std::span(position_ids).subspan(at, s),
                 std::span(loss_mask).subspan(at, s),
                 &cu_seqlens,
                 {}};
    if (masked) {
      out.token_types = std::span(token_types).subspan(at, s);
      out.sentence_label = &sentence_labels[static_cast<std::size_t>(r)];
    }
    return out;
  }

  std::span<const std::int32_t> boundaries(std::int64_t r) const {
    const auto from = static_cast<std::size_t>(cu_offsets[static_cast<std::size_t>(r)]);
    return std::span(cu_seqlens)
        .subspan(from, static_cast<std::size_t>(cu_offsets[static_cast<std::size_t>(r) + 1]) - from);
  }
};

}  // namespace stoa::data
