// This program as a process of its own, for trials.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "base/file.h"

namespace stoa::cli {

struct SelfRun {
  int status = 0;  // of waitpid
  bool succeeded() const;
  bool timed_out = false;
  std::string output, errors;
};

// Runs `stoa ARGUMENTS…`; what it prints passes through files in `directory`. It is killed after
// `most_seconds`, or when a stop is requested. IoError: it cannot be started.
SelfRun run_self(const std::vector<std::string>& arguments, const fs::path& directory, double most_seconds,
                 const std::stop_token& stop);

// The last line of a text that is not empty.
std::string last_line(const std::string& text);

}  // namespace stoa::cli
