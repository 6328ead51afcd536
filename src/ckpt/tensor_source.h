// The tensors of a model, whatever files hold them: names, shapes, element types, and their elements by
// range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ckpt/safetensors.h"
#include "quant/block_format.h"

namespace stoa::ckpt {

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  TensorSource(const TensorSource&) = delete;
  TensorSource& operator=(const TensorSource&) = delete;

  const fs::path& directory() const { return directory_; }
  const std::vector<const TensorEntry*>& entries() const { return entries_; }  // by name
  const TensorEntry* find_entry(std::string_view name) const;                  // nullptr: not there
  const TensorEntry& entry(std::string_view name) const;  // DataError with the nearest name
  std::uint64_t bytes() const;                            // of all tensors
  virtual std::size_t file_count() const = 0;

  // Elements [begin, end) of one of entries(), in row-major order, as stored and not always aligned: on the
  // map of a file where they lie together in it, otherwise put together in `scratch`, which grows as needed.
  virtual std::span<const std::byte> elements(const TensorEntry& tensor, std::int64_t begin, std::int64_t end,
                                              std::vector<std::byte>& scratch) const = 0;
  std::span<const std::byte> all_elements(const TensorEntry& tensor, std::vector<std::byte>& scratch) const {
    return elements(tensor, 0, tensor.elements(), scratch);
  }
  // The bytes of a tensor in blocks of a quantised format, as files hold them; none: it is not stored so.
  struct Blocks {
    const quant::BlockFormat* format;
    std::span<const std::byte> bytes;
  };
  virtual std::optional<Blocks> blocks(const TensorEntry&) const { return std::nullopt; }
  // Reads everything and compares it with the checksums that the files themselves hold; false: they hold
  // none. DataError names what differs.
  virtual bool check_sums() const { return false; }

 protected:
  explicit TensorSource(fs::path directory) : directory_(std::move(directory)) {}
  void set_entries(std::vector<const TensorEntry*> entries);  // each name once; they live as long as this

 private:
  const fs::path directory_;
  std::vector<const TensorEntry*> entries_;
};

// Are the two the same in type, shape and every bit? Reads piece by piece.
bool same_elements(const TensorSource& a, const TensorEntry& in_a, const TensorSource& b,
                   const TensorEntry& in_b);

// The weights of a directory of Hugging Face's form: model.safetensors or, where there is none,
// pytorch_model.bin, each as one file or as shards with an index; or those of a .gguf file under its own
// names. Errors are those of TensorDirectory, torch::TorchDirectory and GgufSource.
std::unique_ptr<TensorSource> open_weights(const fs::path& directory);
bool holds_weights(const fs::path& directory);  // looks at names only

}  // namespace stoa::ckpt
