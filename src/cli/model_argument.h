// MODEL: a Hugging Face directory, an adapter, a checkpoint, or a run, and what it is used on.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cli/machine_factory.h"
#include "infer/open_model.h"

namespace stoa::cli {

struct ModelArguments {
  std::string model;
  std::string dtype;    // "": as stored
  std::string adapter;  // "": none, or that of MODEL
  MachineOptions machine;

  void add_to(CLI::App& command);
  // ConfigError: --dtype names no type of floating point.
  infer::OpenModel open() const;
};

}  // namespace stoa::cli
