// How fast the engine runs a model on a machine: what `stoa bench engine` measures and `stoa plan serve`
// reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/config_source.h"
#include "cli/machine_factory.h"
#include "cli/memory_share.h"
#include "infer/engine/paged_decoder.h"
#include "infer/open_model.h"
#include "serve/load/pass_times.h"

namespace stoa::cli {

// Bytes of a loaded model: keys and values of a token, and all the rest, which is there once.
struct EngineBytes {
  double per_token = 0, other = 0;
};

struct EngineSpeed {
  std::string model, machine;  // "SmolLM2-135M", "cpu, avx512-bf16, 2 threads"
  infer::PassLimits limits;
  serve::PassTimes times;
  std::optional<EngineBytes> bytes = {};   // of every model that is measured; older files have none
  std::optional<MemoryShare> memory = {};  // measured with kYes on a CPU, of decoders; not read from files
};

enum class MeasureMemory : std::uint8_t { kNo, kYes };

// Loads the model `name` as a server does, on a machine of these options, and measures; with kYes also how
// fast memory is read, which takes seconds. `open`: opens it on the machine that it is given. ConfigError:
// not a model that writes texts.
EngineSpeed measure_engine(const std::string& name, MachineOptions machine,
                           const std::function<infer::OpenModel(infer::MakeMachine)>& open,
                           infer::EngineUse use, int rounds, MeasureMemory memory);

nlohmann::ordered_json speed_json(const EngineSpeed& speed);
// Reads the file of a plan's option --measured. DataError: not what speed_json() writes; UsageError: `config`
// names a model, too.
EngineSpeed read_engine_speed(const std::filesystem::path& file, const ConfigArguments& config);

}  // namespace stoa::cli
