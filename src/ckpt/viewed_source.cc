#include "ckpt/viewed_source.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace stoa::ckpt {
namespace {

std::vector<ViewedTensor> sorted(std::vector<ViewedTensor> tensors) {
  std::sort(tensors.begin(), tensors.end(),
            [](const ViewedTensor& a, const ViewedTensor& b) { return a.entry.name < b.entry.name; });
  return tensors;
}

// Whether all runs are in [0, elements), however large the numbers are.
bool fits(std::int64_t rows, std::int64_t count, std::int64_t first, std::int64_t pitch,
          std::int64_t elements) {
  if (rows < 1 || count < 0 || first < 0 || pitch < 0) return false;
  std::int64_t last = 0;
  return !__builtin_mul_overflow(rows - 1, pitch, &last) && !__builtin_add_overflow(last, first, &last) &&
         !__builtin_add_overflow(last, count, &last) && last <= elements;
}

void check_parts(const ViewedTensor& tensor, const fs::path& directory) {
  std::int64_t held = 0;
  for (const ViewedPart& part : tensor.parts) {
    require<DataError>(part.tensor->type == tensor.entry.type,
                       "'{}': the parts of tensor '{}' are of types {} and {}", directory.string(),
                       tensor.entry.name, name_of(tensor.entry.type), name_of(part.tensor->type));
    require<DataError>(fits(part.rows, part.count, part.from, part.from_pitch, part.tensor->elements()) &&
                           fits(part.rows, part.count, part.to, part.to_pitch, tensor.entry.elements()),
                       "'{}': a part of '{}' {} does not fit into tensor '{}' {}", directory.string(),
                       part.tensor->name, part.tensor->shape_text(), tensor.entry.name,
                       tensor.entry.shape_text());
    held += part.rows * part.count;
  }
  require<DataError>(held == tensor.entry.elements(), "'{}': tensor '{}' {} has {} elements in its parts",
                     directory.string(), tensor.entry.name, tensor.entry.shape_text(), held);
}

}  // namespace

ViewedSource::ViewedSource(fs::path directory, std::vector<ViewedTensor> tensors,
                           std::vector<std::shared_ptr<const TensorSource>> alive)
    : TensorSource(std::move(directory)), tensors_(sorted(std::move(tensors))), alive_(std::move(alive)) {
  std::vector<const TensorEntry*> entries;
  for (const ViewedTensor& tensor : tensors_) {
    require<DataError>(entries.empty() || entries.back()->name != tensor.entry.name,
                       "'{}' holds tensor '{}' twice", this->directory().string(), tensor.entry.name);
    check_parts(tensor, this->directory());
    entries.push_back(&tensor.entry);
  }
  set_entries(std::move(entries));
}

std::size_t ViewedSource::file_count() const {
  std::size_t files = 0;
  for (const auto& source : alive_) files += source->file_count();
  return files;
}

const std::vector<ViewedPart>& ViewedSource::parts(const TensorEntry& tensor) const {
  const auto found = std::lower_bound(
      tensors_.begin(), tensors_.end(), tensor.name,
      [](const ViewedTensor& candidate, const std::string& name) { return candidate.entry.name < name; });
  require<InternalError>(found != tensors_.end() && &found->entry == &tensor, "'{}' has no tensor '{}'",
                         directory().string(), tensor.name);
  return found->parts;
}

std::span<const std::byte> ViewedSource::elements(const TensorEntry& tensor, std::int64_t begin,
                                                  std::int64_t end, std::vector<std::byte>& scratch) const {
  require<InternalError>(0 <= begin && begin <= end && end <= tensor.elements(),
                         "elements [{}, {}) of tensor '{}' {}", begin, end, tensor.name, tensor.shape_text());
  if (begin == end) return {};
  const std::size_t each = size_of(tensor.type);
  const auto bytes = static_cast<std::size_t>(end - begin) * each;
  std::vector<std::byte> piece;
  std::int64_t found = 0;
  for (const ViewedPart& part : parts(tensor)) {
    // The runs that reach into the range.
    std::int64_t first = 0, last = part.rows;
    if (part.rows > 1 && part.to_pitch > 0) {
      first = std::clamp<std::int64_t>((begin - part.to - part.count) / part.to_pitch, 0, last);
      last = std::clamp<std::int64_t>((end - 1 - part.to) / part.to_pitch + 1, first, last);
    }
    for (std::int64_t row = first; row < last; ++row) {
      const std::int64_t at = part.to + row * part.to_pitch;
      const std::int64_t low = std::max(begin, at), high = std::min(end, at + part.count);
      if (low >= high) continue;
      const std::int64_t from = part.from + row * part.from_pitch + low - at;
      if (high - low == end - begin)
        return part.source->elements(*part.tensor, from, from + high - low, scratch);
      const auto here = part.source->elements(*part.tensor, from, from + high - low, piece);
      if (found == 0) scratch.resize(std::max(scratch.size(), bytes));
      std::memcpy(scratch.data() + static_cast<std::size_t>(low - begin) * each, here.data(), here.size());
      found += high - low;
    }
  }
  require<DataError>(found == end - begin, "'{}': the parts of tensor '{}' overlap", directory().string(),
                     tensor.name);
  return std::span(scratch).first(bytes);
}

bool ViewedSource::check_sums() const {
  bool all = true;
  for (const auto& source : alive_) all = source->check_sums() && all;
  return all && !alive_.empty();
}

}  // namespace stoa::ckpt
