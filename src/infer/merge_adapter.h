// Adapters and whole models: what an adapter adds to matrices of its model.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/worker_pool.h"
#include "ckpt/export_model.h"
#include "infer/adapter_files.h"

namespace stoa::infer {

// What rounding to the stored type lost, of what the adapter adds to the model: root mean squares.
struct MergeReport {
  ckpt::ExportResult files;
  std::int64_t changed = 0;  // tensors
  double added = 0;          // relative to the weights that it is added to
  double lost = 0;           // relative to what is added
  std::string worst;         // the tensor that loses most, and how much of what is added to it
  double worst_lost = 0;
  std::int64_t vanished = 0;  // tensors that the adapter changes and rounding does not
  // As ckpt::AdapterBase says: the adapter is added to the values that the model had in this format.
  std::string quantized;
  // The model's files hold its weights in fewer bits: the adapter is added to the values that they stand for.
  bool from_quantised_files = false;
};

// Writes the model with the adapter's matrices added, as a Hugging Face directory of elements of `type`: each
// is computed in fp32 and rounded once. `base` and `adapter` belong together. `output` appears complete or
// not at all.
MergeReport merge_adapter(const ModelFiles& base, const AdapterFiles& adapter, DType type,
                          const std::filesystem::path& output, std::uint64_t max_shard_bytes,
                          WorkerPool& pool, const ckpt::ExportProgress& progress = nullptr);

}  // namespace stoa::infer
