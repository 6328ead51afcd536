#include "ckpt/gguf/gguf_source.h"

namespace stoa::ckpt {
namespace {

using quant::BlockType;

// The type that holds the numbers as they are, else F32.
StorageType storage_of(const quant::BlockFormat& format) {
  switch (format.type) {
    case BlockType::kF16:
      return StorageType::kF16;
    case BlockType::kBF16:
      return StorageType::kBF16;
    case BlockType::kF64:
      return StorageType::kF64;
    default:
      return StorageType::kF32;
  }
}

bool is_plain(const quant::BlockFormat& format) { return format.numbers == 1; }

}  // namespace

GgufSource::GgufSource(const fs::path& path) : GgufSource(std::make_shared<const gguf::File>(path)) {}

GgufSource::GgufSource(std::shared_ptr<const gguf::File> file)
    : TensorSource(file->path()), file_(std::move(file)) {
  for (const gguf::Tensor& tensor : file_->tensors()) {
    TensorEntry entry;
    entry.name = tensor.name;
    entry.type = storage_of(*tensor.format);
    entry.shape = tensor.shape;
    list_.push_back(std::move(entry));
  }
  std::vector<const TensorEntry*> entries;
  for (const TensorEntry& entry : list_) entries.push_back(&entry);
  set_entries(std::move(entries));
}

std::span<const std::byte> GgufSource::elements(const TensorEntry& entry, std::int64_t begin,
                                                std::int64_t end, std::vector<std::byte>& scratch) const {
  const gguf::Tensor& tensor = *file_->find(entry.name);
  const std::size_t each = size_of(entry.type);
  if (is_plain(*tensor.format))
    return tensor.bytes.subspan(static_cast<std::size_t>(begin) * each,
                                static_cast<std::size_t>(end - begin) * each);
  scratch.resize(static_cast<std::size_t>(end - begin) * each);
  quant::decode_numbers(*tensor.format, tensor.bytes.data(), begin, end - begin,
                        reinterpret_cast<float*>(scratch.data()));
  return scratch;
}

std::optional<TensorSource::Blocks> GgufSource::blocks(const TensorEntry& entry) const {
  const gguf::Tensor& tensor = *file_->find(entry.name);
  if (is_plain(*tensor.format)) return std::nullopt;
  return Blocks{tensor.format, tensor.bytes};
}

}  // namespace stoa::ckpt
