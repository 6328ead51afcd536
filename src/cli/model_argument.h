// MODEL: a Hugging Face directory, an adapter, a checkpoint, or a run, and what it is used on.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "cli/machine_factory.h"
#include "infer/open_model.h"

namespace stoa::cli {

// What models are used on.
struct ComputeArguments {
  std::string dtype;  // "": as stored
  MachineOptions machine;

  void add_to(CLI::App& command);
  // None: as stored. ConfigError: --dtype names no type of floating point.
  std::optional<DType> type() const;
};

// What becomes of the weights of quantised files. A command without these options decodes them; one with them
// does so if asked to.
struct WeightArguments {
  infer::QuantisedWeights form = infer::QuantisedWeights::kDecoded;
  std::string given;  // the option, if it was

  void add_to(CLI::App& command);
};

struct ModelArguments : ComputeArguments {
  std::string model;
  std::string adapter;  // "": none, or that of MODEL
  WeightArguments weights;

  void add_to(CLI::App& command);
  // ConfigError as of type().
  infer::OpenModel open() const;
  // Computes on this machine instead of that of the options.
  infer::OpenModel open(infer::MakeMachine make) const;
};

}  // namespace stoa::cli
