// CONFIG of every command that takes one: a configuration of Stoa or of NeMo (launcher, 1.x, 2.x), a preset,
// a Hugging Face config.json or a directory that has one, or the command line of Megatron-LM. One reader
// serves them all.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/console.h"
#include "config/node.h"
#include "foreign/megatron_arguments.h"
#include "train/run_config.h"

namespace stoa::cli {

using foreign::Purpose;

struct ConfigArguments {
  std::string config;  // empty with from_megatron
  std::vector<std::string> overrides;
  std::vector<std::string> defaults;  // of a command, below the user's overrides; for a model directory
  std::string output;                 // the run directory, of commands that have add_output()
  std::string from_megatron;          // arguments, or the path of a script or of a YAML file
  std::vector<std::string> ignore;    // arguments of it that are left out
  bool list_ignored = false;          // every key that has no effect, not their number
  // What a search is for: the batch of a command of Megatron-LM that says neither its batch nor its ranks.
  std::optional<std::int64_t> planned_ranks = {};

  // CONFIG [key=value …], --from-megatron, --ignore, --list-ignored.
  void add_to(CLI::App& command);
  // --output DIR
  void add_output(CLI::App& command);
  // Overrides with --output as exp_manager.explicit_log_dir.
  std::vector<std::string> all_overrides() const;
  bool given() const { return !config.empty() || !from_megatron.empty(); }
  // What is read, for answers and messages.
  const std::string& source() const { return from_megatron.empty() ? config : from_megatron; }
  // CONFIG where it is a file for Stoa or NeMo, or a preset; else "".
  std::string stoa_file() const;
};

struct FoundConfig {
  train::RunConfig run;
  std::vector<std::string> ignored;  // keys without effect, each with its reason
  std::vector<std::string> notes;
};

// The command of Megatron-LM in a text that is at hand.
FoundConfig read_megatron_config(const foreign::MegatronText& text, const std::vector<std::string>& ignore,
                                 const std::vector<std::string>& overrides, Purpose purpose,
                                 std::optional<std::int64_t> ranks,
                                 std::optional<std::int64_t> planned_ranks = {});
// A recipe of NeMo 2 that is at hand.
FoundConfig read_nemo2_config(config::Node root, std::vector<std::string> overrides, Purpose purpose,
                              std::optional<std::int64_t> ranks);

// ConfigError, UsageError: what cannot be read, honoured or understood; where it is not for a plan, also
// what Stoa would train differently. `ranks`: how many train together, if known.
FoundConfig read_config(const ConfigArguments& arguments, Purpose purpose,
                        std::optional<std::int64_t> ranks = {});
// The same; keys without effect and assumptions are reported on `console`.
train::RunConfig load_config(const ConfigArguments& arguments, Purpose purpose, Console& console,
                             std::optional<std::int64_t> ranks = {});

}  // namespace stoa::cli
