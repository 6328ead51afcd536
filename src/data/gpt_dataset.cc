#include "data/gpt_dataset.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/error.h"

namespace stoa::data {
namespace {

std::string describe(const IndexedDataset& data, std::string_view split, const GptIndexInput& in) {
  nlohmann::ordered_json j;
  j["class"] = "GPTDataset";
  // The name without its folder and the checksum of the lengths: data that is prepared again never meets old
  // indices, and data that is moved keeps them.
  j["dataset"] = data.prefix().filename().string();
  j["idx_checksum"] = checksum_text(data.index_checksum());
  j["split"] = split;
  j["first_sequence"] = in.first;
  j["last_sequence"] = in.last;
  if (in.samples) j["num_samples"] = *in.samples;
  j["sequence_length"] = in.sequence_length;
  j["random_seed"] = in.seed;
  j["add_extra_token"] = in.extra_token;
  j["drop_last_partial"] = in.drop_last_partial;
  return j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

GptDataset::GptDataset(std::shared_ptr<const IndexedDataset> data, std::int64_t first, std::int64_t last,
                       std::optional<std::int64_t> samples, const GptOptions& options, std::string_view split,
                       const IndexCache& cache)
    : data_(std::move(data)), first_(first), last_(last), options_(options) {
  const std::string name = data_->prefix().string();
  require<DataError>(first >= 0 && first < last && last <= data_->sequences(),
                     "'{}' has {} documents; the {} split asks for {} to {}", name, data_->sequences(), split,
                     first, last);
  require<DataError>(is_integer(data_->dtype()), "'{}' stores {}, which are not token ids", name,
                     token_dtype_name(data_->dtype()));
  require<ConfigError>(!options.eod_mask_loss || options.eod_id >= 0,
                       "eod_mask_loss needs a tokenizer with an end-of-document token; this one has none");
  const GptIndexInput input{first,
                            last,
                            [this](std::int64_t i) { return std::int64_t{data_->length(i)}; },
                            options.sequence_length,
                            samples,
                            options.seed,
                            options.add_extra_token,
                            options.drop_last_partial,
                            cache.stop()};
  plan_ = plan_epochs(input);
  require<DataError>(plan_.samples > 0,
                     "the {} split of '{}' holds {} tokens, too few for one sample of {} (and its next "
                     "token); use a shorter "
                     "sequence length or more data",
                     split, name, plan_.tokens_per_epoch, options.sequence_length);
  const auto accept = [&](const std::vector<NpyArray>& a) {
    return a[0].rows() == plan_.epochs * (last - first) && a[0].columns() == 1 &&
           a[1].rows() == plan_.samples + 1 && a[1].columns() == 2 && a[2].rows() == plan_.samples &&
           a[2].columns() == 1;
  };
  const auto build = [&]() -> std::vector<NpyArray> {
    GptIndex built = build_gpt_index(input, plan_);
    return {std::move(built.document_index), std::move(built.sample_index), std::move(built.shuffle_index)};
  };
  auto arrays = cache.get(fmt::format("GPTDataset-{}", split), describe(*data_, split, input),
                          {"document_index", "sample_index", "shuffle_index"}, accept, build);
  index_ = {std::move(arrays[0]), std::move(arrays[1]), std::move(arrays[2])};
}

template <class Visit>
void GptDataset::visit_pieces(std::int64_t k, Visit&& visit) const {
  require<DataError>(k >= 0 && k < size(), "'{}' has {} samples; number {} was requested",
                     data_->prefix().string(), size(), k);
  const auto sound = [&](bool condition) {  // a cached index is a file: its values are not trusted
    require<DataError>(condition,
                       "the cached indices of '{}' are damaged (sample {}); remove the cache directory",
                       data_->prefix().string(), k);
  };
  const std::int64_t j = index_.shuffle_index.at(k);
  sound(j >= 0 && j < size());
  const std::int64_t d0 = index_.sample_index.at(j, 0), o0 = index_.sample_index.at(j, 1);
  const std::int64_t d1 = index_.sample_index.at(j + 1, 0), o1 = index_.sample_index.at(j + 1, 1);
  sound(d0 >= 0 && d0 <= d1 && d1 < index_.document_index.rows());
  const std::int64_t x = options_.add_extra_token ? 1 : 0;
  std::int64_t total = 0;
  for (std::int64_t d = d0; d <= d1; ++d) {
    const std::int64_t sequence = index_.document_index.at(d);
    sound(sequence >= first_ && sequence < last_);
    const std::int64_t from = d == d0 ? o0 : 0, to = d == d1 ? o1 + x : data_->length(sequence);
    sound(from >= 0 && from <= to && to <= data_->length(sequence));
    if (from == to) continue;
    total += to - from;
    sound(total <= options_.sequence_length + x);
    visit(sequence, from, to - from);
  }
}

std::vector<Piece> GptDataset::pieces(std::int64_t k) const {
  std::vector<Piece> out;
  visit_pieces(k, [&](std::int64_t sequence, std::int64_t offset, std::int64_t length) {
    out.push_back({data_->prefix().string(), sequence, offset, length});
  });
  return out;
}

void GptDataset::check_ids(std::int64_t sequence, std::int64_t offset,
                           std::span<const std::int32_t> ids) const {
  if (options_.vocabulary <= 0) return;
  std::uint32_t highest = 0;  // a negative id is a high unsigned one
  for (const std::int32_t id : ids) highest = std::max(highest, static_cast<std::uint32_t>(id));
  if (highest < options_.vocabulary) return;
  for (std::size_t i = 0; i < ids.size(); ++i)
    require<DataError>(
        ids[i] >= 0 && ids[i] < options_.vocabulary,
        "'{}': token {} of sequence {} is {}, but the vocabulary has {} entries; was the data prepared with "
        "another tokenizer?",
        data_->prefix().string(), offset + static_cast<std::int64_t>(i), sequence, ids[i],
        options_.vocabulary);
}

void GptDataset::read(std::int64_t k, BatchRow row) const {
  const std::int64_t s = options_.sequence_length;
  auto& starts = *row.cu_seqlens;
  const std::size_t first_start = starts.size();
  starts.push_back(0);
  std::int64_t filled = 0;  // of the S + 1 tokens
  std::int32_t beyond = 0;  // token number S: only a label
  visit_pieces(k, [&](std::int64_t sequence, std::int64_t offset, std::int64_t length) {
    if (filled > 0 && filled < s) starts.push_back(static_cast<std::int32_t>(filled));
    const std::int64_t inside = std::min(length, s - filled);
    const auto part = row.tokens.subspan(static_cast<std::size_t>(filled), static_cast<std::size_t>(inside));
    data_->read(sequence, offset, part);
    check_ids(sequence, offset, part);
    if (length > inside) {
      data_->read(sequence, offset + inside, std::span(&beyond, 1));
      check_ids(sequence, offset + inside, std::span(&beyond, 1));
    }
    filled += length;
  });

  // Short samples: the missing tokens are 0 and carry no loss.
  const std::int64_t inputs = std::min(filled, s);
  std::fill(row.tokens.begin() + inputs, row.tokens.end(), 0);
  std::copy(row.tokens.begin() + 1, row.tokens.end(), row.labels.begin());
  row.labels.back() = filled > s ? beyond : 0;
  const std::int64_t labelled = std::max<std::int64_t>(filled - 1, 0);
  std::fill(row.loss_mask.begin(), row.loss_mask.begin() + labelled, 1.0f);
  std::fill(row.loss_mask.begin() + labelled, row.loss_mask.end(), 0.0f);

  // A document ends after its end-of-document token, and where the next piece begins (data without such
  // tokens).
  const std::int32_t eod = options_.eod_id;
  if (eod >= 0) {
    const std::size_t joins = starts.size();
    for (std::int64_t i = 0; i < inputs; ++i) {
      if (row.tokens[static_cast<std::size_t>(i)] != eod) continue;
      if (options_.eod_mask_loss) row.loss_mask[static_cast<std::size_t>(i)] = 0;
      if (i + 1 < s) starts.push_back(static_cast<std::int32_t>(i + 1));
    }
    const auto begin = starts.begin() + static_cast<std::ptrdiff_t>(first_start);
    std::inplace_merge(begin, starts.begin() + static_cast<std::ptrdiff_t>(joins), starts.end());
    starts.erase(std::unique(begin, starts.end()), starts.end());
  }
  starts.push_back(static_cast<std::int32_t>(s));

  std::int32_t next = 0;
  std::size_t b = first_start + 1;
  for (std::int64_t i = 0; i < s; ++i) {
    if (options_.reset_position_ids && starts[b] == i) next = 0, ++b;
    row.position_ids[static_cast<std::size_t>(i)] = next++;
  }
  if (!options_.reset_attention_mask) {
    starts.resize(first_start);
    starts.push_back(0);
    starts.push_back(static_cast<std::int32_t>(s));
  }
}

}  // namespace stoa::data
