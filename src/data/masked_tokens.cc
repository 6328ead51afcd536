#include "data/masked_tokens.h"

#include <algorithm>

namespace stoa::data {

void mask_tokens(std::span<std::int32_t> sequence, std::span<float> chosen, std::int64_t target,
                 const MaskingTokens& tokens, const NgramOptions& options, NumpyRandom& random) {
  std::fill(chosen.begin(), chosen.end(), 0.0f);
  Words words;
  for (std::uint32_t i = 0; i < sequence.size(); ++i) {
    const std::int32_t id = sequence[i];
    if (id != tokens.cls && id != tokens.sep)
      words.add(i, tokens.continues[static_cast<std::size_t>(id)] != 0);
  }
  const auto hide = [&](std::span<const std::uint32_t> positions) {
    for (const std::uint32_t i : positions) {
      chosen[i] = 1;
      if (random.next_double() < 0.8)
        sequence[i] = tokens.mask;
      else if (random.next_double() >= 0.5)
        sequence[i] =
            static_cast<std::int32_t>(random.interval(static_cast<std::uint64_t>(tokens.vocabulary - 1)));
    }
  };
  const double most = most_chosen(static_cast<std::int64_t>(sequence.size()), target, options.probability);
  choose_ngrams(words, most, options, random, hide);
}

}  // namespace stoa::data
