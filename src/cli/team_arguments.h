// Ranks that run a model together, in commands that write or measure texts: how many, and how they start.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <stop_token>

#include "cli/command.h"
#include "cli/machine_factory.h"
#include "infer/engine/rank_team.h"

namespace stoa::cli {

struct TeamArguments {
  infer::TeamShape shape;

  // Options whose values are written here: this must outlive `command`.
  void add_to(CLI::App& command);
  bool any() const { return shape.ranks() > 1; }

  // What `body` gets: the ranks, or null with one rank; on which machine each of them computes; a stop that
  // is requested when the command is to end, because a signal says so or because a rank failed.
  struct Run {
    infer::RankTeam* team;
    MachineOptions machine;
    std::stop_token stop;
  };
  // Calls `body` where the command runs: with one rank on this thread, with several on one next to rank 0's.
  // On the other ranks, which are threads of this process or processes of a launcher, nothing but follow()
  // happens. `machine`: of the command's options.
  void run(const MachineOptions& machine, Context& context,
           const std::function<void(const Run&)>& body) const;
};

}  // namespace stoa::cli
