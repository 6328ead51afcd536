#include "cli/preset_changes.h"

#include "cli/key_conditions.h"
#include "foreign/nemo_keys.h"

namespace stoa::cli {

PresetChanges changes_against_preset(const std::string& config, const RunConfig& run) {
  const auto section = run_schema();
  const config::Sources sources{presets_directory(), foreign::nemo_keys(), key_conditions()};
  PresetChanges found;
  RunConfig base;
  // The last preset in the chain of bases: the file itself, where it is one.
  if (!config.empty())
    for (const auto& layer : config::read_layers(config, sources)) {
      if (!layer.origin.source) continue;
      const fs::path file = *layer.origin.source;
      std::error_code ignored;
      if (!sources.presets.empty() && fs::equivalent(file.parent_path(), sources.presets, ignored))
        found.preset = file.stem().string();
    }
  if (found.preset.empty()) {
    for (const auto& resolve : section.schema().resolves) resolve(&base);
  } else {
    base = config::load<RunConfig>(section, found.preset, {}, sources);
  }
  found.changes = config::differences(section.schema(), &base, &run);
  return found;
}

}  // namespace stoa::cli
