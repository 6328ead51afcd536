#include "data/dataset.h"

namespace stoa::data {

void fill_batch(const Dataset& dataset, std::span<const std::int64_t> samples, Batch& batch) {
  batch.resize(static_cast<std::int64_t>(samples.size()), dataset.sequence_length(), dataset.masked());
  for (std::size_t r = 0; r < samples.size(); ++r) {
    const BatchRow row = batch.row(static_cast<std::int64_t>(r));
    dataset.read(samples[r], row);
    batch.samples[r] = samples[r];
    batch.cu_offsets.push_back(static_cast<std::int32_t>(batch.cu_seqlens.size()));
    for (const float m : row.loss_mask) batch.valid_tokens += m != 0;
  }
}

}  // namespace stoa::data
