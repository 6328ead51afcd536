// The stages that a pipeline can name: each with its keys, declared where it is written.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "config/node.h"
#include "config/schema.h"
#include "curate/stage.h"

namespace stoa::curate {

struct StageKind {
  std::string_view name;  // "gopher_quality"
  std::string_view help;
  config::Schema schema;
  config::Node defaults;  // values of all keys
  // Reads the keys (a mapping, or null: the defaults). ConfigError lists what is wrong, each with its place.
  // `resolved`: the values of all keys, for the record of a run.
  std::function<std::unique_ptr<Stage>(const config::Node& keys, config::Node& resolved)> make;
};

std::span<const StageKind> stage_kinds();

}  // namespace stoa::curate
