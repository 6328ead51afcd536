// Writes checkpoints of NeMo: NeMo 2's folder with context/ and weights/, and NeMo 1's .nemo archive. Both
// hold the weights as torch_dist, which loads in any layout.
#pragma once

#include <filesystem>

#include "foreign/checkpoint/torch_dist_writing.h"

namespace stoa::foreign {

// `output`, new or empty, becomes such a folder; with the optimizer's state, and what Lightning resumes from,
// where `state` has it. `small_files`: the directory of the tokenizer. ConfigError: NeMo 2 has no such model.
MegatronExport write_nemo2(const model::ModelSpec& spec, const CanonicalState& state,
                           const MegatronForm& form, const std::filesystem::path& small_files,
                           const std::filesystem::path& output, const ckpt::ExportProgress& progress);

// The archive `output` ("model.nemo"), which must not exist. An archive holds weights alone. ConfigError:
// NeMo 1 has no such model. IoError. `tokenizer_left`: whether a tokenizer stays behind that the archive has
// no place for.
struct NemoArchive {
  MegatronExport written;
  bool tokenizer_left = false;
};
NemoArchive write_nemo1(const model::ModelSpec& spec, const CanonicalState& state, const MegatronForm& form,
                        const std::filesystem::path& small_files, const std::filesystem::path& output,
                        const ckpt::ExportProgress& progress);

}  // namespace stoa::foreign
