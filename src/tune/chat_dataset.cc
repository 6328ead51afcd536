#include "tune/chat_dataset.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "data/numpy_random.h"
#include "tune/packing.h"

namespace stoa::tune {

std::int64_t scored_token(std::span<const token::TokenId> text, std::optional<std::int32_t> padding) {
  const std::int64_t last = std::ssize(text) - 1;
  for (std::int64_t i = last; i >= 0; --i)
    if (text[static_cast<std::size_t>(i)] != padding) return i;
  return last;
}

ChatDataset::ChatDataset(std::shared_ptr<const EncodedFiles> files, std::optional<std::int64_t> rows,
                         const Options& options)
    : files_(std::move(files)), options_(options) {
  const auto& samples = files_->samples;
  require<InternalError>(!samples.empty(), "a tuning data set without samples");
  std::vector<std::int64_t> lengths;
  lengths.reserve(samples.size());
  for (const EncodedSample& sample : samples) lengths.push_back(tokens_of(sample));
  if (options_.packed) {
    rows_ = pack(lengths, options_.sequence_length);
  } else {
    for (std::uint32_t i = 0; i < samples.size(); ++i) {
      require<InternalError>(lengths[i] <= options_.sequence_length, "a sample of {} tokens for rows of {}",
                             lengths[i], options_.sequence_length);
      rows_.push_back({i});
    }
  }
  const auto wanted = static_cast<std::size_t>(rows.value_or(static_cast<std::int64_t>(rows_.size())));
  order_.reserve(wanted);
  std::vector<std::uint32_t> epoch(rows_.size());
  data::NumpyRandom random(options_.seed);
  while (order_.size() < wanted) {
    std::iota(epoch.begin(), epoch.end(), 0u);
    if (options_.shuffled) random.shuffle(std::span(epoch));
    const std::size_t count = std::min(epoch.size(), wanted - order_.size());
    order_.insert(order_.end(), epoch.begin(), epoch.begin() + static_cast<std::ptrdiff_t>(count));
  }
}

std::int64_t ChatDataset::tokens_of(const EncodedSample& sample) const {
  return sample.size() + options_.virtual_tokens * (sample.rejected ? 2 : 1);
}

const std::vector<std::uint32_t>& ChatDataset::row(std::int64_t k) const {
  require<DataError>(k >= 0 && k < size(), "the tuning data has {} rows; number {} was requested", size(), k);
  return rows_[order_[static_cast<std::size_t>(k)]];
}

std::vector<RowText> ChatDataset::texts(std::int64_t k) const {
  std::vector<RowText> out;
  std::int32_t at = 0;
  const auto add = [&](std::uint32_t sample, const EncodedText& text, bool rejected) {
    const auto end = at + options_.virtual_tokens + static_cast<std::int32_t>(text.size());
    out.push_back({sample, rejected, at, end});
    at = end;
  };
  for (const std::uint32_t i : row(k)) {
    const EncodedSample& sample = files_->samples[i];
    add(i, sample.text, false);
    if (sample.rejected) add(i, *sample.rejected, true);
  }
  return out;
}

void ChatDataset::read(std::int64_t k, data::BatchRow to) const {
  std::fill(to.tokens.begin(), to.tokens.end(), options_.pad);
  std::fill(to.labels.begin(), to.labels.end(), 0);
  std::fill(to.loss_mask.begin(), to.loss_mask.end(), 0.0f);
  std::iota(to.position_ids.begin(), to.position_ids.end(), 0);
  std::int32_t filled = 0;
  for (const RowText& place : texts(k)) {
    const EncodedSample& sample = files_->samples[place.sample];
    const EncodedText& text = place.rejected ? *sample.rejected : sample.text;
    to.cu_seqlens->push_back(place.begin);
    const std::int32_t first = place.begin + options_.virtual_tokens;
    const auto begin = static_cast<std::size_t>(first);
    std::iota(to.tokens.begin() + place.begin, to.tokens.begin() + first, options_.first_virtual);
    std::copy(text.tokens.begin(), text.tokens.end(), to.tokens.begin() + first);
    if (options_.scored) {
      to.loss_mask[begin + static_cast<std::size_t>(scored_token(text.tokens, options_.unscored))] = 1;
    } else {
      for (std::size_t i = 0; i + 1 < text.tokens.size(); ++i) {  // the last token predicts nothing
        to.labels[begin + i] = text.tokens[i + 1];
        to.loss_mask[begin + i] = text.trained[i + 1];
      }
    }
    std::iota(to.position_ids.begin() + place.begin, to.position_ids.begin() + place.end, 0);
    filled = place.end;
  }
  const auto length = static_cast<std::int32_t>(options_.sequence_length);
  if (filled < length) {
    to.cu_seqlens->push_back(filled);
    std::iota(to.position_ids.begin() + filled, to.position_ids.end(), 0);
  }
  to.cu_seqlens->push_back(length);
}

std::vector<data::Piece> ChatDataset::pieces(std::int64_t k) const {
  std::vector<data::Piece> out;
  for (const RowText& text : texts(k)) {
    const Place& place = files_->records[static_cast<std::size_t>(files_->samples[text.sample].record)];
    out.push_back({place.file, place.number, 0, text.end - text.begin - options_.virtual_tokens});
  }
  return out;
}

std::int64_t ChatDataset::trained_tokens() const {
  const auto trained = [&](const EncodedText& text) { return options_.scored ? 1 : text.trained_tokens(); };
  std::int64_t sum = 0;
  for (const EncodedSample& sample : files_->samples)
    sum += trained(sample.text) + (sample.rejected ? trained(*sample.rejected) : 0);
  return sum;
}

double ChatDataset::fill() const {
  std::int64_t tokens = 0;
  for (const EncodedSample& sample : files_->samples) tokens += tokens_of(sample);
  return static_cast<double>(tokens) /
         (static_cast<double>(rows_.size()) * static_cast<double>(options_.sequence_length));
}

}  // namespace stoa::tune
