// The whole configuration of a run, composed from the sections that the folders declare.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "config/reader.h"
#include "config/schema.h"
#include "foreign/purpose.h"
#include "train/run_config.h"

namespace stoa::cli {

using train::RunConfig;

// `ranks`: how many run, where that is known.
config::Section<RunConfig> run_schema(std::optional<std::int64_t> ranks = {});

// The directory of presets (configs/*.yaml): `configs` or `share/stoa/configs` in a directory above the
// program; empty where there is none.
fs::path presets_directory();

// Reads CONFIG (a file for Stoa or NeMo 1.x, or the name of a preset) with `key=value` overrides; `report`
// gets ignored keys and defaults taken from NeMo. ConfigError lists all that is wrong.
RunConfig load_run_config(const std::string& config, std::span<const std::string> overrides,
                          config::Report* report = nullptr, std::optional<std::int64_t> ranks = {},
                          foreign::Purpose purpose = foreign::Purpose::kPlan);

// The same of a file of NeMo 1.x that is at hand, without what its `defaults` name.
RunConfig read_nemo_run_config(config::Node root, std::span<const std::string> overrides,
                               foreign::Purpose purpose);

// The same from text, for tests and fuzzing.
RunConfig parse_run_config(std::string_view yaml, std::span<const std::string> overrides = {},
                           config::Report* report = nullptr);

// The resolved configuration: every field, as YAML that reads back to the same values.
std::string show_run_config(const RunConfig& run);

// docs/configuration.md.
std::string reference_page();

}  // namespace stoa::cli
