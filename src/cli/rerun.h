// Runs the steps of a finished run again, to see their tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "cli/command.h"

namespace stoa::cli {

namespace fs = std::filesystem;

// Trains from the newest checkpoint of `run` before the first of `steps` (or from its start) to the last of
// them, on this machine's default backend, and writes their tensors to `output`/dump. The run directory is
// not touched. ConfigError: not a run directory; several ranks.
void rerun_and_dump(const fs::path& run, const std::vector<std::int64_t>& steps, const fs::path& output,
                    Context& context);

}  // namespace stoa::cli
