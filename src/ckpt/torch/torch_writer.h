// Writes files as torch.save does: zip archives with a pickle, and the storages of tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ckpt/storage_type.h"
#include "ckpt/torch/pickle_writer.h"

namespace stoa::ckpt::torch {

// "torch.float32" without its module, and the name of its class of storage; DataError: PyTorch has none.
std::string_view torch_dtype_name(StorageType type);

// A whole file that holds values alone, no tensors. `pickle`: a finished one.
std::string torch_file_of(const std::string& pickle);

// The file of one dense tensor: what stands before its elements and after them. The elements' checksum is
// known only once they are written, so that a piece of the head is written last.
class TensorFileFrame {
 public:
  TensorFileFrame(StorageType type, const std::vector<std::int64_t>& shape);

  std::uint64_t bytes() const { return head_.size() + elements_ + tail_.size(); }
  std::uint64_t data_offset() const { return head_.size(); }
  // With the checksum (CRC-32, zlib's) of the elements.
  const std::string& head(std::uint32_t crc);
  const std::string& tail(std::uint32_t crc);

 private:
  std::string head_, tail_;
  std::uint64_t elements_ = 0;  // bytes
  std::size_t crc_in_head_ = 0, crc_in_tail_ = 0;
};

// A tensor as the pickle of torch.save says it, its storage being number `storage`.
void write_tensor_value(PickleWriter& pickle, StorageType type, const std::vector<std::int64_t>& shape,
                        int storage);

}  // namespace stoa::ckpt::torch
