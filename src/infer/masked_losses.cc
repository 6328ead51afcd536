#include "infer/masked_losses.h"

#include <algorithm>
#include <vector>

#include "infer/probabilities.h"

namespace stoa::infer {
namespace {

float loss_of(std::span<const float> logits, std::int32_t label) {
  return static_cast<float>(log_of_sum(logits) - logits[static_cast<std::size_t>(label)]);
}

}  // namespace

void masked_losses(EncoderRank& rank, std::int32_t mask, std::span<const std::int32_t> tokens,
                   std::span<const std::int32_t> rows, std::span<float> losses) {
  require<InternalError>(rows.size() == losses.size(), "{} rows, {} losses", rows.size(), losses.size());
  const auto length = static_cast<std::int64_t>(tokens.size());
  const auto vocabulary = static_cast<std::size_t>(rank.options().model.vocabulary);
  while (!rows.empty()) {
    const auto copies =
        static_cast<std::size_t>(std::min({static_cast<std::int64_t>(rows.size()), rank.options().masks,
                                           std::max<std::int64_t>(1, rank.options().pass_tokens / length)}));
    std::vector<std::int32_t> texts, hidden;
    for (const std::int32_t row : rows.first(copies)) {
      hidden.push_back(static_cast<std::int32_t>(texts.size()) + row);
      texts.insert(texts.end(), tokens.begin(), tokens.end());
      texts[static_cast<std::size_t>(hidden.back())] = mask;
    }
    const std::vector<std::int64_t> lengths(copies, length);
    const std::span<const float> logits = rank.predict(texts, lengths, hidden);
    for (std::size_t i = 0; i < copies; ++i)
      losses[i] =
          loss_of(logits.subspan(i * vocabulary, vocabulary), tokens[static_cast<std::size_t>(rows[i])]);
    rows = rows.subspan(copies), losses = losses.subspan(copies);
  }
}

}  // namespace stoa::infer
