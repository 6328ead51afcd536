// Arguments of every command that takes a configuration.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

namespace stoa::cli {

// The arguments of every command that takes a configuration: CONFIG [key=value …] [--output DIR].
struct ConfigArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string output;

  void add_to(CLI::App& command);
  // Overrides with --output as exp_manager.explicit_log_dir.
  std::vector<std::string> all_overrides() const;
};

}  // namespace stoa::cli
