#include "data/bert_dataset.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/error.h"

namespace stoa::data {
namespace {

std::string describe(const IndexedDataset& data, std::string_view split, const SentenceIndexInput& in) {
  nlohmann::ordered_json j;
  j["class"] = "BERTMaskedWordPieceDataset";
  j["dataset"] = data.prefix().filename().string();
  j["idx_checksum"] = checksum_text(data.index_checksum());
  j["split"] = split;
  j["first_document"] = in.first;
  j["last_document"] = in.last;
  if (in.samples) j["num_samples"] = *in.samples;
  j["longest"] = in.longest;
  j["short_sequence_probability"] = in.short_probability;
  j["least_sentences"] = in.least_sentences;
  j["random_seed"] = in.seed;
  return j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void check_tokens(const MaskingTokens& t) {
  for (const auto& [name, id] :
       {std::pair{"[CLS]", t.cls}, std::pair{"[SEP]", t.sep}, std::pair{"[MASK]", t.mask}})
    require<ConfigError>(id >= 0,
                         "the tokenizer has no {} token, which samples of kind bert need; name one in its "
                         "tokenizer_config.json (cls_token, sep_token, mask_token)",
                         name);
}

}  // namespace

BertDataset::BertDataset(std::shared_ptr<const IndexedDataset> data, std::int64_t first, std::int64_t last,
                         std::optional<std::int64_t> samples, const BertOptions& options,
                         std::string_view split, const IndexCache& cache)
    : data_(std::move(data)), options_(options) {
  const std::string name = data_->prefix().string();
  require<DataError>(first >= 0 && first < last && last <= data_->documents(),
                     "'{}' has {} documents; the {} split asks for {} to {}", name, data_->documents(), split,
                     first, last);
  require<DataError>(is_integer(data_->dtype()), "'{}' stores {}, which are no token ids", name,
                     token_dtype_name(data_->dtype()));
  require<ConfigError>(options_.sequence_length >= 8, "samples of {} tokens; expected 8 or more",
                       options_.sequence_length);
  check_tokens(options_.tokens);
  SentenceIndexInput input;
  input.data = data_.get();
  input.first = first;
  input.last = last;
  input.samples = samples;
  input.longest = options_.sequence_length - 3;
  input.short_probability = options_.short_probability;
  input.least_sentences = options_.sentence_pairs ? 2 : 1;
  input.seed = options_.seed;
  const auto accept = [](const std::vector<NpyArray>& a) {
    return a[0].rows() > 0 && a[0].rows() % 3 == 0 && a[0].columns() == 1;
  };
  const auto build = [&]() -> std::vector<NpyArray> { return {build_sentence_index(input)}; };
  rows_ = cache.get(fmt::format("BertDataset-{}", split), describe(*data_, split, input), {"sample_index"},
                    accept, build)[0];
}

BertDataset::Sentences BertDataset::sentences(std::int64_t k) const {
  require<DataError>(k >= 0 && k < size(), "'{}' has {} samples; asked for number {}",
                     data_->prefix().string(), size(), k);
  const Sentences s{rows_.at(3 * k), rows_.at(3 * k + 1), rows_.at(3 * k + 2)};
  // A cached index is a file: its values are not trusted.
  require<DataError>(s.begin >= 0 && s.begin < s.end && s.end <= data_->sequences() && s.target >= 1 &&
                         s.target <= options_.sequence_length - 3 &&
                         (!options_.sentence_pairs || s.end - s.begin >= 2),
                     "the cached indices of '{}' are damaged (sample {}); remove the cache folder",
                     data_->prefix().string(), k);
  return s;
}

std::vector<Piece> BertDataset::pieces(std::int64_t k) const {
  const Sentences s = sentences(k);
  std::vector<Piece> out;
  for (std::int64_t i = s.begin; i < s.end; ++i)
    out.push_back({data_->prefix().string(), i, 0, data_->length(i)});
  return out;
}

void BertDataset::read(std::int64_t k, BatchRow row) const {
  const Sentences s = sentences(k);
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
  const auto segment = [&](std::int64_t from, std::int64_t to) {
    std::vector<std::int32_t> out;
    for (std::int64_t i = from; i < to; ++i) {
      const std::size_t at = out.size();
      out.resize(at + static_cast<std::size_t>(data_->length(i)));
      data_->read(i, 0, std::span(out).subspan(at));
    }
    for (const std::int32_t id : out)
      require<DataError>(id >= 0 && id < options_.tokens.vocabulary,
                         "'{}': sentences {} to {} hold token id {}, but the vocabulary has {} entries; was "
                         "the data prepared with another tokenizer?",
                         data_->prefix().string(), from, to, id, options_.tokens.vocabulary);
    return out;
  };
  std::vector<std::int32_t> a = segment(s.begin, s.begin + pivot), b = segment(s.begin + pivot, s.end);
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
