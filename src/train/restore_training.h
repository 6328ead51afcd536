// `stoa train --restore CKPT`: a run continues a checkpoint that is not its own.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "train/run_config.h"

namespace stoa::train {

// Called on the first process. The checkpoint from which the run begins: CKPT itself, if it is one of Stoa's,
// otherwise what was made of it in the run's own folder of checkpoints. A run that has checkpoints continues
// from those: then the answer is empty. Errors as foreign::open_foreign and ckpt::find_checkpoint; DataError:
// it holds no state of an optimizer.
std::filesystem::path restored_checkpoint(const RunConfig& config, const std::filesystem::path& given,
                                          const std::function<void(std::string_view)>& say);

}  // namespace stoa::train
