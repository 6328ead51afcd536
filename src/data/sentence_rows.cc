#include "data/sentence_rows.h"

#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/error.h"

namespace stoa::data {
namespace {

std::string describe(std::string_view megatron_class, std::string_view split, const SentenceIndexInput& in) {
  nlohmann::ordered_json j;
  j["class"] = megatron_class;
  j["dataset"] = in.data->prefix().filename().string();
  j["idx_checksum"] = checksum_text(in.data->index_checksum());
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

}  // namespace

SentenceRows::SentenceRows(std::shared_ptr<const IndexedDataset> data, SentenceIndexInput input,
                           std::string_view kind, std::string_view megatron_class, std::string_view split,
                           const IndexCache& cache)
    : data_(std::move(data)), longest_(input.longest), least_sentences_(input.least_sentences) {
  require<DataError>(input.first >= 0 && input.first < input.last && input.last <= data_->documents(),
                     "'{}' has {} documents; the {} split asks for {} to {}", name(), data_->documents(),
                     split, input.first, input.last);
  require<DataError>(is_integer(data_->dtype()), "'{}' stores {}, which are not token ids", name(),
                     token_dtype_name(data_->dtype()));
  input.data = data_.get();
  input.stop = cache.stop();
  const auto accept = [](const std::vector<NpyArray>& a) {
    return a[0].rows() > 0 && a[0].rows() % 3 == 0 && a[0].columns() == 1;
  };
  const auto build = [&]() -> std::vector<NpyArray> { return {build_sentence_index(input)}; };
  rows_ = cache.get(fmt::format("{}-{}", kind, split), describe(megatron_class, split, input),
                    {"sample_index"}, accept, build)[0];
}

SentenceRows::Row SentenceRows::row(std::int64_t k) const {
  require<DataError>(k >= 0 && k < size(), "'{}' has {} samples; number {} was requested", name(), size(), k);
  const Row r{rows_.at(3 * k), rows_.at(3 * k + 1), rows_.at(3 * k + 2)};
  // A cached index is a file: its values are not trusted.
  require<DataError>(r.begin >= 0 && r.end <= data_->sequences() && r.target >= 1 && r.target <= longest_ &&
                         r.end - r.begin >= std::max<std::int64_t>(1, least_sentences_),
                     "the cached indices of '{}' are damaged (sample {}); remove the cache directory", name(),
                     k);
  return r;
}

std::vector<Piece> SentenceRows::pieces(std::int64_t k) const {
  const Row r = row(k);
  std::vector<Piece> out;
  for (std::int64_t i = r.begin; i < r.end; ++i) out.push_back({name(), i, 0, data_->length(i)});
  return out;
}

std::vector<std::int32_t> SentenceRows::tokens(std::int64_t begin, std::int64_t end,
                                               std::int64_t vocabulary) const {
  std::vector<std::int32_t> out;
  for (std::int64_t i = begin; i < end; ++i) {
    const std::size_t at = out.size();
    out.resize(at + static_cast<std::size_t>(data_->length(i)));
    data_->read(i, 0, std::span(out).subspan(at));
  }
  for (const std::int32_t id : out)
    require<DataError>(id >= 0 && id < vocabulary,
                       "'{}': sentences {} to {} hold token id {}, but the vocabulary has {} entries; was "
                       "the data prepared with another tokenizer?",
                       name(), begin, end, id, vocabulary);
  return out;
}

}  // namespace stoa::data
