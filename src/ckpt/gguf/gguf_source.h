// The tensors of a GGUF file under its own names, shapes as elsewhere (rows first). Quantised ones are
// decoded as they are read, and appear as F32.
#pragma once

#include <memory>
#include <unordered_map>

#include "ckpt/tensor_source.h"
#include "formats/gguf/gguf_file.h"

namespace stoa::ckpt {

class GgufSource : public TensorSource {
 public:
  // Errors are those of gguf::File.
  explicit GgufSource(const fs::path& path);
  explicit GgufSource(std::shared_ptr<const gguf::File> file);

  const gguf::File& file() const { return *file_; }
  std::size_t file_count() const override { return file_->parts(); }
  std::span<const std::byte> elements(const TensorEntry& tensor, std::int64_t begin, std::int64_t end,
                                      std::vector<std::byte>& scratch) const override;
  std::optional<Blocks> blocks(const TensorEntry& tensor) const override;

 private:
  std::shared_ptr<const gguf::File> file_;
  std::vector<TensorEntry> list_;
};

}  // namespace stoa::ckpt
