#include "data/virtual_sources.h"

#include <algorithm>
#include <numeric>

namespace stoa::data {

void VirtualSources::read(std::int64_t k, BatchRow row) const {
  const auto count = static_cast<std::size_t>(tokens_.count), rest = row.tokens.size() - count;
  std::vector<std::int32_t> boundaries;
  pairs_->read(k, {.tokens = row.tokens.subspan(count),
                   .labels = row.labels.subspan(count),
                   .position_ids = row.position_ids.subspan(count),
                   .loss_mask = row.loss_mask.subspan(count),
                   .cu_seqlens = &boundaries,
                   .token_types = {}});
  std::iota(row.tokens.begin(), row.tokens.end() - static_cast<std::ptrdiff_t>(rest), tokens_.first_id);
  std::fill_n(row.labels.begin(), count, 0);
  std::fill_n(row.loss_mask.begin(), count, 0.0f);
  // Those of the text move on; those of the target stay.
  std::iota(row.position_ids.begin(),
            row.position_ids.begin() + static_cast<std::ptrdiff_t>(count) + source_length_, 0);
  row.cu_seqlens->push_back(boundaries.front());
  for (std::size_t i = 1; i < boundaries.size(); ++i)
    row.cu_seqlens->push_back(boundaries[i] + static_cast<std::int32_t>(count));
}

}  // namespace stoa::data
