#include "ckpt/tensor_source.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/nearest.h"
#include "ckpt/gguf/gguf_source.h"
#include "ckpt/tensor_directory.h"
#include "ckpt/torch/torch_directory.h"

namespace stoa::ckpt {

void TensorSource::set_entries(std::vector<const TensorEntry*> entries) {
  entries_ = std::move(entries);
  std::sort(entries_.begin(), entries_.end(),
            [](const TensorEntry* a, const TensorEntry* b) { return a->name < b->name; });
}

const TensorEntry* TensorSource::find_entry(std::string_view name) const {
  const auto it = std::lower_bound(entries_.begin(), entries_.end(), name,
                                   [](const TensorEntry* a, std::string_view b) { return a->name < b; });
  return it != entries_.end() && (*it)->name == name ? *it : nullptr;
}

const TensorEntry& TensorSource::entry(std::string_view name) const {
  if (const auto* found = find_entry(name)) return *found;
  std::vector<std::string> names;
  for (const auto* each : entries_) names.push_back(each->name);
  fail<DataError>("'{}' holds no tensor '{}'{}", directory_.string(), name, did_you_mean(name, names));
}

std::uint64_t TensorSource::bytes() const {
  std::uint64_t total = 0;
  for (const auto* each : entries_) total += each->bytes();
  return total;
}

bool same_elements(const TensorSource& a, const TensorEntry& in_a, const TensorSource& b,
                   const TensorEntry& in_b) {
  if (in_a.type != in_b.type || in_a.shape != in_b.shape) return false;
  constexpr std::int64_t kPiece = 1 << 20;
  std::vector<std::byte> scratch_a, scratch_b;
  const std::int64_t elements = in_a.elements();
  for (std::int64_t begin = 0; begin < elements; begin += kPiece) {
    const std::int64_t end = std::min(elements, begin + kPiece);
    const auto x = a.elements(in_a, begin, end, scratch_a), y = b.elements(in_b, begin, end, scratch_b);
    if (std::memcmp(x.data(), y.data(), x.size()) != 0) return false;
  }
  return true;
}

std::unique_ptr<TensorSource> open_weights(const fs::path& directory) {
  if (gguf::is_gguf(directory)) return std::make_unique<GgufSource>(directory);
  if (!TensorDirectory::exists(directory) && torch::TorchDirectory::exists(directory))
    return std::make_unique<torch::TorchDirectory>(directory);
  return std::make_unique<TensorDirectory>(directory);
}

bool holds_weights(const fs::path& directory) {
  return gguf::is_gguf(directory) || TensorDirectory::exists(directory) ||
         torch::TorchDirectory::exists(directory);
}

}  // namespace stoa::ckpt
