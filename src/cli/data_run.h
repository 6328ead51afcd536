// What the commands that run a pipeline of the data factory share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "curate/run/run.h"

namespace stoa::cli {

struct RunArguments {
  curate::RunOptions options;
  std::string output;
  double memory = 2;
  bool json = false;
};

// --output, --workers, --strict, --shared, --json.
void add_run_arguments(CLI::App& c, RunArguments& a, const std::string& output);
void add_memory_argument(CLI::App& c, RunArguments& a);

// Runs, and prints what became of the documents. DataError at the end: an input could not be read.
void run_and_print(const curate::Pipeline& pipeline, RunArguments& a, Context& context);

}  // namespace stoa::cli
