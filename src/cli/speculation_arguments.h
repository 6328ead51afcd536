// Where guesses at the next tokens come from, in commands that write answers.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/model_argument.h"
#include "infer/engine/drafter.h"

namespace stoa::cli {

struct SpeculationArguments {
  bool prompt_lookup = false;
  std::string draft;  // "": none

  void add_to(CLI::App& command);
  bool any() const { return prompt_lookup || !draft.empty(); }
  // Tokens of a pass whose logits are asked for, where `sequences` run.
  std::int64_t scored(std::int64_t sequences) const {
    return any() ? std::max<std::int64_t>(32, sequences) : sequences;
  }
  // None where no option is given. `compute`: what the draft model is used on. Errors of
  // infer::load_draft_model.
  std::unique_ptr<infer::Drafter> open(const ComputeArguments& compute, infer::OpenModel& model,
                                       const infer::PassLimits& limits) const;
};

}  // namespace stoa::cli
