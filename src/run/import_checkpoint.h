// Checkpoints of other programs in Stoa's forms: a Hugging Face directory, or a checkpoint that a run
// resumes.
#pragma once

#include <filesystem>

#include "ckpt/export_model.h"
#include "foreign/checkpoint/foreign_checkpoint.h"

namespace stoa::run {

// Writes the model as the family that Stoa writes for it, its weights in the types that they have.
// `small_files`: a directory whose tokenizer files are copied, or empty. As export_model: complete or not at
// all.
ckpt::ExportResult import_model(const foreign::ForeignCheckpoint& from,
                                const std::filesystem::path& small_files, const std::filesystem::path& output,
                                std::uint64_t max_shard_bytes,
                                const ckpt::ExportProgress& progress = nullptr);

// Writes a checkpoint with the optimizer's state into the folder `checkpoints`, as a run of Stoa does, and
// returns its directory. DataError: there is no such state (from.why_no_state).
std::filesystem::path import_training(const foreign::ForeignCheckpoint& from,
                                      const std::filesystem::path& small_files,
                                      const std::filesystem::path& checkpoints, std::uint64_t max_shard_bytes,
                                      const ckpt::ExportProgress& progress = nullptr);

}  // namespace stoa::run
