#include "ckpt/grown_rows.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "ckpt/convert.h"

namespace stoa::ckpt {

GrownRows::GrownRows(std::shared_ptr<const TensorSource> source, std::span<const std::string> matrices,
                     NewTokens tokens)
    : TensorSource(source->directory()), source_(std::move(source)), tokens_(tokens) {
  for (const std::string& name : matrices) {
    const TensorEntry& stored = source_->entry(name);
    require<DataError>(is_float(stored.dtype()) && !stored.shape.empty() && stored.shape[0] >= tokens.first,
                       "tensor '{}' {} {} cannot grow by tokens {} to {}", name, ckpt::name_of(stored.type),
                       stored.shape_text(), tokens.first, tokens.end() - 1);
    Grown grown{stored, &stored, stored.elements() / stored.shape[0], {}};
    grown.entry.shape[0] = std::max(stored.shape[0], tokens.end());
    take_mean(grown);
    grown_.emplace(name, std::move(grown));
  }
  std::vector<const TensorEntry*> entries;
  for (const TensorEntry* each : source_->entries()) {
    const auto found = grown_.find(each->name);
    entries.push_back(found == grown_.end() ? each : &found->second.entry);
  }
  set_entries(std::move(entries));
}

void GrownRows::take_mean(Grown& grown) const {
  const DType type = grown.stored->dtype();
  const auto columns = static_cast<std::size_t>(grown.columns);
  std::vector<double> sum(columns), piece;
  std::vector<std::byte> scratch;
  const std::int64_t rows_at_once = std::max<std::int64_t>(1, (1 << 20) / grown.columns);
  for (std::int64_t row = 0; row < tokens_.first; row += rows_at_once) {
    const std::int64_t end = std::min(tokens_.first, row + rows_at_once);
    const auto bytes = source_->elements(*grown.stored, row * grown.columns, end * grown.columns, scratch);
    piece.resize(static_cast<std::size_t>(end - row) * columns);
    convert_elements(bytes.data(), type, reinterpret_cast<std::byte*>(piece.data()), DType::kF64,
                     static_cast<std::int64_t>(piece.size()));
    for (std::size_t i = 0; i < piece.size(); ++i) sum[i % columns] += piece[i];
  }
  for (double& value : sum) value /= static_cast<double>(std::max<std::int64_t>(1, tokens_.first));
  grown.mean.resize(columns * size_of(type));
  convert_elements(reinterpret_cast<const std::byte*>(sum.data()), DType::kF64, grown.mean.data(), type,
                   grown.columns);
}

std::span<const std::byte> GrownRows::elements(const TensorEntry& tensor, std::int64_t begin,
                                               std::int64_t end, std::vector<std::byte>& scratch) const {
  const auto found = grown_.find(tensor.name);
  if (found == grown_.end()) return source_->elements(tensor, begin, end, scratch);
  const Grown& grown = found->second;
  const std::int64_t first_new = tokens_.first * grown.columns;
  if (end <= first_new) return source_->elements(*grown.stored, begin, end, scratch);
  const std::size_t size = size_of(grown.stored->dtype());
  std::vector<std::byte> inner;
  scratch.resize(static_cast<std::size_t>(end - begin) * size);
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t row = at / grown.columns, column = at % grown.columns;
    std::byte* to = scratch.data() + static_cast<std::size_t>(at - begin) * size;
    std::int64_t count = 0;
    if (at < first_new) {
      count = std::min(end, first_new) - at;
      const auto from = source_->elements(*grown.stored, at, at + count, inner);
      std::memcpy(to, from.data(), from.size());
    } else if (row < tokens_.end()) {
      count = std::min(end - at, grown.columns - column);
      std::memcpy(to, grown.mean.data() + static_cast<std::size_t>(column) * size,
                  static_cast<std::size_t>(count) * size);
    } else {  // padding of the files beyond the new tokens
      count = end - at;
      const auto from = source_->elements(*grown.stored, at, end, inner);
      std::memcpy(to, from.data(), from.size());
    }
    at += count;
  }
  return scratch;
}

}  // namespace stoa::ckpt
