// Runs programs in Python that a model has written, where they can do no harm: a process without network,
// without other processes, without files that it could write, with limits of its own for memory and time
// (seccomp filters; where the kernel has Landlock, it reads nothing but Python's own files, too). No root is
// needed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"

namespace stoa::eval {

struct SandboxLimits {
  double seconds = 3;                           // of the program, of wall time
  std::int64_t memory = std::int64_t{4} << 30;  // bytes of addresses
};

enum class Outcome { kPassed, kFailed, kTimedOut };

class PythonSandbox {
 public:
  // `python`: the interpreter; "": `python3` in PATH. ConfigError: it is missing, or the kernel allows no
  // seccomp filters (what is missing is named).
  explicit PythonSandbox(const fs::path& python = {}, SandboxLimits limits = {});

  // Passed: the program ran to its end without an exception. `why`: the last line of the error, if not null.
  Outcome run(const std::string& program, std::string* why = nullptr) const;

 private:
  fs::path python_;
  SandboxLimits limits_;
  std::vector<fs::path> readable_;  // folders with Python's own files
};

}  // namespace stoa::eval
