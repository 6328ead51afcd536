// How fast the engine runs a model on a machine: what `stoa bench engine` measures and `stoa plan serve`
// reads.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "infer/engine/paged_decoder.h"
#include "infer/open_model.h"
#include "serve/load/pass_times.h"

namespace stoa::cli {

struct EngineSpeed {
  std::string model, machine;  // "SmolLM2-135M", "cpu, avx512-bf16, 2 threads"
  infer::PassLimits limits;
  serve::PassTimes times;
};

// Loads the model as a server does, and measures. ConfigError: not a model that continues a text.
EngineSpeed measure_engine(infer::OpenModel& model, const infer::EngineUse& use, const std::string& name,
                           const std::string& machine, int rounds);

nlohmann::ordered_json speed_json(const EngineSpeed& speed);
// DataError: not what speed_json() writes.
EngineSpeed read_engine_speed(const std::filesystem::path& file);

}  // namespace stoa::cli
