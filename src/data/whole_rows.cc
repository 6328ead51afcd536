#include "data/whole_rows.h"

#include <tuple>

namespace stoa::data {

Batch whole_rows(std::int64_t rows, std::int64_t length,
                 const std::function<std::pair<std::int32_t, std::int32_t>(std::int64_t i)>& words,
                 std::int64_t source) {
  Batch batch;
  batch.resize(rows, length);
  for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
    const auto element = static_cast<std::int64_t>(i);
    std::tie(batch.tokens[i], batch.labels[i]) = words(element);
    const std::int64_t at = element % length;
    batch.position_ids[i] = static_cast<std::int32_t>(at < source ? at : at - source);
    batch.loss_mask[i] = at < source ? 0.0f : 1.0f;
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    batch.cu_seqlens.push_back(0);
    if (source > 0) batch.cu_seqlens.push_back(static_cast<std::int32_t>(source));
    batch.cu_seqlens.push_back(static_cast<std::int32_t>(length));
    batch.cu_offsets.push_back(static_cast<std::int32_t>(batch.cu_seqlens.size()));
  }
  batch.valid_tokens = rows * (length - source);
  return batch;
}

}  // namespace stoa::data
