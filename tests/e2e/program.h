// Runs the built `stoa` as a user would: a process with arguments, output, exit status, signals and limits.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace stoa::e2e {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

struct Outcome {
  int exit_code = -1;  // 128 + signal when a signal ended it
  std::string out, err;
  bool timed_out = false;
  std::string text() const;  // for messages of failed tests
};

struct ProgramOptions {
  fs::path directory;                       // to run in
  std::optional<std::uint64_t> file_bytes;  // largest file it may write (RLIMIT_FSIZE)
  std::chrono::seconds timeout{600};        // long: no test may fail because the machine is busy
  fs::path program = {};                    // another one than stoa
  fs::path input = "/dev/null";
  fs::path output = {};  // given: what it prints goes there, and is not in the outcome
};

class Program {
 public:
  Program(const Arguments& arguments, const ProgramOptions& options);
  ~Program();  // kills what still runs
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void signal(int number) const;
  pid_t id() const { return pid_; }
  std::string errors() const;  // what it has said so far on standard error
  bool running();
  bool handles(int signal) const;  // it would not end by it at once
  // Waits until `condition` holds, the process ends or the time is over; what the condition says then.
  bool wait_until(const std::function<bool()>& condition);
  Outcome wait();

 private:
  bool reap(bool block);

  const ProgramOptions options_;
  const std::chrono::steady_clock::time_point deadline_;
  fs::path out_, err_;
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

// Two lists in one.
Arguments operator+(Arguments a, const Arguments& b);
// With spaces between them.
std::string joined(const Arguments& arguments);

}  // namespace stoa::e2e
