// A Hugging Face directory out of any model, under the names and keys of a family that is not its own.
#pragma once

#include <memory>

#include "ckpt/export_model.h"
#include "infer/model_files.h"

namespace stoa::run {

struct FamilyExport {
  std::string family;   // model_type of what was written
  std::string why_not;  // of a model that no family of transformers can say: what the nearest lacks
  ckpt::ExportResult result;
};

// A model directory as `family`, tensor by tensor as `dtype`. The content keeps `files` alive.
ckpt::ExportContent content_as_family(std::shared_ptr<const infer::ModelFiles> files,
                                      const model::huggingface::Family& family, DType dtype,
                                      const ckpt::ExportProgress& progress);

// `family`: a model_type, or "auto" for the family that Stoa writes its own checkpoints as. ConfigError: that
// family cannot say the model. Otherwise as ckpt::export_model().
FamilyExport export_as_family(const ckpt::FoundCheckpoint& from, const std::string& family, DType dtype,
                              const std::filesystem::path& output,
                              std::uint64_t max_shard_bytes = ckpt::kDefaultShardBytes,
                              const ckpt::ExportProgress& progress = nullptr);

}  // namespace stoa::run
