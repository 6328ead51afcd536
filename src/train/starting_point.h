// From where a run starts: a checkpoint that it resumes, or the weights of another model. Chosen and verified
// once, by the first process.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ckpt/find_checkpoint.h"
#include "train/launch.h"
#include "train/run_config.h"

namespace stoa::train {

// The checkpoint from which a run of this configuration resumes; none: it starts from the beginning.
// ConfigError if there is one but the configuration forbids resuming, or there is none but it requires one.
std::optional<ckpt::FoundCheckpoint> checkpoint_to_resume(const RunConfig& config,
                                                          ckpt::Verify verify = ckpt::Verify::kAll);

// At most one of them.
struct StartingPoint {
  std::optional<ckpt::FoundCheckpoint> resume;
  std::optional<ckpt::FoundCheckpoint> weights;  // of restore_from_path
};
// Verifies every file. `from`: resumes this checkpoint instead of checkpoint_to_resume().
StartingPoint find_start(const RunConfig& config, const std::optional<std::filesystem::path>& from = {});
// What the first process finds, on all processes; the others only look whether the files are there.
// DataError: a process does not see them.
// `from`: called on the first process; a checkpoint of another run from which this one resumes, or empty.
StartingPoint agree_on_start(Launch& launch, const RunConfig& config,
                             const std::function<std::filesystem::path()>& from = nullptr);

// One starting point as text, for other processes. It includes the model on which an adapter's checkpoint is
// resumed, which may not be where the checkpoint says.
std::string text_of(const StartingPoint& start);
StartingPoint open_start(std::string_view text);

}  // namespace stoa::train
