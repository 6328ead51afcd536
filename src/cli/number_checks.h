// Numbers on the command line: finite, decimal, within bounds, told in one sentence where they are not.
#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>

namespace stoa::cli {

// For an option's check(): a number of [low, high], both included; a whole one where the option's type is.
CLI::Validator between(double low, double high);

// Threads of one process.
inline CLI::Validator thread_count() { return between(1, 4096); }
// Ranks of a job.
inline CLI::Validator rank_count() { return between(1, 1 << 20); }

// Options that would do nothing without another one, or beside it, are refused there. Names as "--output".
void counts_only_with(CLI::App& command, std::initializer_list<const char*> options, const char* other);
void counts_only_without(CLI::App& command, std::initializer_list<const char*> options, const char* other);

// For all options of the program: numbers that have no bounds of their own are of [0, 1e9]; what stands after
// an option is one value of it (a list has commas), so that `--gpus 64,128 model.num_layers=2` ends where it
// seems to.
void complete_options(CLI::App& app);

}  // namespace stoa::cli
