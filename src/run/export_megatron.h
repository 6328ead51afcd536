// Any model, or checkpoint with the optimizer's state, as Megatron-Core or NeMo loads it.
#pragma once

#include "ckpt/find_checkpoint.h"
#include "foreign/checkpoint/write_megatron.h"
#include "foreign/checkpoint/write_nemo.h"

namespace stoa::run {

// A checkpoint of Stoa keeps Adam's state, step and samples; any other model is written as weights alone.
// ConfigError: Megatron has no such model, or no such optimizer.
foreign::MegatronExport export_megatron(const ckpt::FoundCheckpoint& from, const foreign::MegatronForm& form,
                                        const std::filesystem::path& output,
                                        const ckpt::ExportProgress& progress);

// A folder of NeMo 2 likewise, and a .nemo archive of the weights for NeMo 1.
foreign::MegatronExport export_nemo2(const ckpt::FoundCheckpoint& from, const foreign::MegatronForm& form,
                                     const std::filesystem::path& output,
                                     const ckpt::ExportProgress& progress);
foreign::NemoArchive export_nemo1(const ckpt::FoundCheckpoint& from, const foreign::MegatronForm& form,
                                  const std::filesystem::path& output, const ckpt::ExportProgress& progress);

}  // namespace stoa::run
