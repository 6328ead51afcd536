#include "data/bert_dataset.h"

#include <algorithm>

#include "base/error.h"

namespace stoa::data {
namespace {

void check_tokens(const MaskingTokens& t) {
  for (const auto& [name, id] :
       {std::pair{"[CLS]", t.cls}, std::pair{"[SEP]", t.sep}, std::pair{"[MASK]", t.mask}})
    require<ConfigError>(id >= 0,
                         "the tokenizer has no {} token, which samples of kind bert need; name one in its "
                         "tokenizer_config.json (cls_token, sep_token, mask_token)",
                         name);
}

const BertOptions& checked(const BertOptions& options) {
  require<ConfigError>(options.sequence_length >= 8, "samples of {} tokens; expected 8 or more",
                       options.sequence_length);
  check_tokens(options.tokens);
  return options;
}

}  // namespace

BertDataset::BertDataset(std::shared_ptr<const IndexedDataset> data, std::int64_t first, std::int64_t last,
                         std::optional<std::int64_t> samples, const BertOptions& options,
                         std::string_view split, const IndexCache& cache)
    : options_(checked(options)),
      rows_(std::move(data),
            {nullptr, first, last, samples, options.sequence_length - 3, options.short_probability,
             options.sentence_pairs ? 2 : 1, options.seed},
            "BertDataset", "BERTMaskedWordPieceDataset", split, cache) {}

void BertDataset::read(std::int64_t k, BatchRow row) const {
  const SentenceRows::Row s = rows_.row(k);
  NumpyRandom random(
      static_cast<std::uint32_t>(std::uint64_t{options_.seed} + static_cast<std::uint64_t>(k)));
  std::int64_t pivot = s.end - s.begin;
  bool swapped = false;
  if (options_.sentence_pairs) {
    pivot =
        s.end - s.begin < 3
            ? 1
            : 1 + static_cast<std::int64_t>(random.interval(static_cast<std::uint64_t>(s.end - s.begin - 2)));
    swapped = random.next_double() < 0.5;
  }
  std::vector<std::int32_t> a = rows_.tokens(s.begin, s.begin + pivot, options_.tokens.vocabulary),
                            b = rows_.tokens(s.begin + pivot, s.end, options_.tokens.vocabulary);
  if (swapped) std::swap(a, b);
  // Too long a pair loses tokens one by one, at either end of the longer segment.
  std::span<const std::int32_t> kept_a(a), kept_b(b);
  while (static_cast<std::int64_t>(kept_a.size() + kept_b.size()) > s.target) {
    auto& longer = kept_a.size() > kept_b.size() ? kept_a : kept_b;
    longer = random.next_double() < 0.5 ? longer.subspan(1) : longer.first(longer.size() - 1);
  }

  std::size_t length = 0;
  const auto add = [&](std::span<const std::int32_t> ids, std::int32_t type) {
    for (const std::int32_t id : ids) {
      row.tokens[length] = id;
      row.token_types[length++] = type;
    }
  };
  add({&options_.tokens.cls, 1}, 0);
  add(kept_a, 0);
  add({&options_.tokens.sep, 1}, 0);
  if (!kept_b.empty()) {
    add(kept_b, 1);
    add({&options_.tokens.sep, 1}, 1);
  }
  std::copy_n(row.tokens.begin(), length, row.labels.begin());
  mask_tokens(row.tokens.first(length), row.loss_mask.first(length), s.target, options_.tokens,
              options_.masking, random);
  std::fill(row.tokens.begin() + static_cast<std::ptrdiff_t>(length), row.tokens.end(), options_.tokens.pad);
  const auto clear = [&](auto values) {
    std::fill(values.begin() + static_cast<std::ptrdiff_t>(length), values.end(), 0);
  };
  clear(row.token_types), clear(row.labels), clear(row.loss_mask);
  for (std::size_t i = 0; i < row.position_ids.size(); ++i)
    row.position_ids[i] = static_cast<std::int32_t>(i);
  *row.sentence_label = swapped ? 1 : 0;
  row.cu_seqlens->push_back(0);
  row.cu_seqlens->push_back(static_cast<std::int32_t>(length));
}

}  // namespace stoa::data
