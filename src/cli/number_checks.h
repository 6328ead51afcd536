// Numbers on the command line: finite, decimal, within bounds; otherwise one message says what was expected.
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

// Reject `options` given without, or with, `other`, where they have no effect. Names as "--output".
void counts_only_with(CLI::App& command, std::initializer_list<const char*> options, const char* other);
void counts_only_without(CLI::App& command, std::initializer_list<const char*> options, const char* other);

// For all options of the program: numbers without explicit bounds must be in [0, 1e9]; each option takes
// exactly one argument (lists use commas), so that in `--gpus 64,128 model.num_layers=2` the second word is
// not taken as a value.
void complete_options(CLI::App& app);

}  // namespace stoa::cli
