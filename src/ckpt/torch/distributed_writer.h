// Writes a directory of torch.distributed.checkpoint (distributed_checkpoint.h reads them).
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "ckpt/export_model.h"
#include "ckpt/tensor_source.h"

namespace stoa::ckpt::torch {

// Elements of a tensor in files that make up a block of a written one.
struct WrittenPart {
  std::vector<std::int64_t> offsets, sizes;  // of the block
  const TensorSource* source = nullptr;
  const TensorEntry* tensor = nullptr;
  std::int64_t begin = 0;  // its first element; the others follow
};
struct WrittenTensor {
  std::string name;
  StorageType type = StorageType::kF32;  // elements of floating-point types are converted to it
  std::vector<std::int64_t> shape;
  std::vector<WrittenPart> parts;
};

// Writes .metadata and files of at most about `max_file_bytes` into `directory`, which exists.
// `empty_objects`: names of objects that are None. Blocks are split so that no piece is larger than a
// gigabyte.
void write_distributed(const std::filesystem::path& directory, const std::vector<WrittenTensor>& tensors,
                       const std::vector<std::string>& empty_objects, std::uint64_t max_file_bytes,
                       const ExportProgress& progress);

}  // namespace stoa::ckpt::torch
