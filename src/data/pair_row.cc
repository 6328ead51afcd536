#include "data/pair_row.h"

#include "base/error.h"

namespace stoa::data {

void write_pair(std::span<const std::int32_t> source, std::span<const std::int32_t> labels,
                std::size_t source_length, std::int32_t start, BatchRow row) {
  const std::size_t length = row.tokens.size();
  require<InternalError>(
      source.size() <= source_length && !labels.empty() && source_length + labels.size() <= length,
      "a pair of {} and {} tokens in a row of {} and {}", source.size(), labels.size(), source_length,
      length - source_length);
  std::fill(row.tokens.begin(), row.tokens.end(), start);
  std::fill(row.labels.begin(), row.labels.end(), start);
  std::copy(source.begin(), source.end(), row.tokens.begin());
  const auto input = row.tokens.subspan(source_length);
  std::copy(labels.begin(), labels.end() - 1, input.begin() + 1);
  std::copy(labels.begin(), labels.end(), row.labels.subspan(source_length).begin());
  for (std::size_t i = 0; i < length; ++i) {
    row.loss_mask[i] = i >= source_length && i < source_length + labels.size() ? 1.0f : 0.0f;
    row.position_ids[i] = static_cast<std::int32_t>(i < source_length ? i : i - source_length);
  }
  row.cu_seqlens->push_back(0);
  if (!source.empty() && source.size() < source_length)
    row.cu_seqlens->push_back(static_cast<std::int32_t>(source.size()));
  row.cu_seqlens->push_back(static_cast<std::int32_t>(source_length));
  row.cu_seqlens->push_back(static_cast<std::int32_t>(length));
}

}  // namespace stoa::data
