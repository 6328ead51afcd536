#include "infer/fill_masks.h"

#include <algorithm>
#include <numeric>

#include "infer/probabilities.h"

namespace stoa::infer {

FilledText fill_masks(OpenModel& model, std::string_view text, std::int64_t best) {
  const auto rank = load_encoder(model, {.masks = kMasksAtOnce});
  const token::Tokenizer& tokenizer = model.tokenizer();
  const token::TokenId mask = mask_id(model);
  std::vector<token::TokenId> ids = tokenizer.encode(text, {.plain = false, .add_special = true});
  const std::int64_t longest = rank->options().longest;
  require<DataError>(static_cast<std::int64_t>(ids.size()) <= longest,
                     "the prompt has {} tokens, the model reads at most {}", ids.size(), longest);
  std::vector<std::int32_t> rows;
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] == mask) rows.push_back(static_cast<std::int32_t>(i));
  require<DataError>(!rows.empty(), "an encoder fills masks: write {} in the prompt for each missing word",
                     tokenizer.id_to_token(mask));
  require<DataError>(static_cast<std::int64_t>(rows.size()) <= kMasksAtOnce,
                     "{} masks in the prompt, at most {}", rows.size(), kMasksAtOnce);
  const auto length = static_cast<std::int64_t>(ids.size());
  const std::span<const float> logits = rank->predict(ids, std::span(&length, 1), rows);
  const auto vocabulary = static_cast<std::size_t>(rank->options().model.vocabulary);
  const auto count = std::min(static_cast<std::size_t>(best), vocabulary);
  FilledText out;
  for (std::size_t m = 0; m < rows.size(); ++m) {
    const auto row = logits.subspan(m * vocabulary, vocabulary);
    const std::vector<double> p = probabilities(row);
    std::vector<token::TokenId> order(vocabulary);
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                      [&](token::TokenId a, token::TokenId b) {
                        const float x = row[static_cast<std::size_t>(a)],
                                    y = row[static_cast<std::size_t>(b)];
                        return x != y ? x > y : a < b;
                      });
    FilledText::Mask filled{rows[m], {}};
    for (std::size_t i = 0; i < count; ++i)
      filled.tokens.push_back({order[i], p[static_cast<std::size_t>(order[i])]});
    out.masks.push_back(std::move(filled));
    ids[static_cast<std::size_t>(rows[m])] = order[0];
  }
  out.text = tokenizer.decode(ids, {.skip_special = true});
  return out;
}

}  // namespace stoa::infer
