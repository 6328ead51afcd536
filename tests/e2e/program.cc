#include "program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/test_paths.h"

namespace stoa::e2e {
namespace {

fs::path temporary_file() {
  std::string name = (fs::temp_directory_path() / "stoa-e2e-XXXXXX").string();
  const int fd = ::mkstemp(name.data());
  require<IoError>(fd >= 0, "cannot create '{}'", name);
  ::close(fd);
  return name;
}

// In the child, where only plain system calls are allowed. Does not return.
[[noreturn]] void execute(char* const* argv, const ProgramOptions& options, const char* out,
                          const char* err) {
  if (::chdir(options.directory.c_str()) != 0) ::_exit(125);
  const int o = ::open(out, O_WRONLY | O_TRUNC), e = ::open(err, O_WRONLY | O_TRUNC),
            in = ::open(options.input.c_str(), O_RDONLY);
  if (o < 0 || e < 0 || in < 0 || ::dup2(in, 0) < 0 || ::dup2(o, 1) < 0 || ::dup2(e, 2) < 0) ::_exit(125);
  if (options.file_bytes) {
    const rlimit limit{*options.file_bytes, *options.file_bytes};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(125);
  }
  ::execv(argv[0], argv);
  ::_exit(126);
}

}  // namespace

std::string Outcome::text() const {
  return fmt::format("exit {}{}\n--- output\n{}\n--- errors\n{}\n", exit_code,
                     timed_out ? " (timed out)" : "", out, err);
}

Program::Program(const Arguments& arguments, const ProgramOptions& options)
    : options_(options),
      deadline_(std::chrono::steady_clock::now() + options.timeout),
      out_(temporary_file()),
      err_(temporary_file()) {
  Arguments full{options.program.empty() ? test::program().string() : options.program.string()};
  full.insert(full.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (auto& argument : full) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_ = ::fork();
  require<InternalError>(pid_ >= 0, "fork failed");
  const fs::path& out = options_.output.empty() ? out_ : options_.output;
  if (pid_ == 0) execute(argv.data(), options_, out.c_str(), err_.c_str());
}

Program::~Program() {
  if (!ended_) {
    ::kill(pid_, SIGKILL);
    reap(true);
  }
  std::error_code ignored;
  fs::remove(out_, ignored);
  fs::remove(err_, ignored);
}

void Program::signal(int number) const {
  if (!ended_) ::kill(pid_, number);
}

std::string Program::errors() const { return read_text(err_); }

bool Program::reap(bool block) {
  if (!ended_ && ::waitpid(pid_, &status_, block ? 0 : WNOHANG) == pid_) ended_ = true;
  return ended_;
}

bool Program::running() { return !reap(false); }

bool Program::handles(int signal) const {
  // Before exec the C library may block every signal for a moment (seen with glibc 2.41).
  std::error_code none;
  const fs::path runs = fs::read_symlink(fmt::format("/proc/{}/exe", pid_), none);
  if (none || runs == fs::read_symlink("/proc/self/exe")) return false;
  const std::string status = read_text(fmt::format("/proc/{}/status", pid_));
  for (const std::string key : {"SigBlk:", "SigCgt:"}) {
    const auto at = status.find(key);
    if (at != std::string::npos &&
        (std::stoull(status.substr(at + key.size()), nullptr, 16) >> (signal - 1) & 1) != 0)
      return true;
  }
  return false;
}

bool Program::wait_until(const std::function<bool()>& condition) {
  while (!condition()) {
    if (!running() || std::chrono::steady_clock::now() > deadline_) return condition();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

Outcome Program::wait() {
  Outcome outcome;
  if (!wait_until([&] { return ended_; }) && !ended_) {
    outcome.timed_out = true;
    signal(SIGKILL);
    reap(true);
  }
  outcome.exit_code = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  outcome.out = read_text(out_);
  outcome.err = read_text(err_);
  return outcome;
}

std::string joined(const Arguments& arguments) {
  std::string out;
  for (const auto& argument : arguments) out += (out.empty() ? "" : " ") + argument;
  return out;
}

Arguments operator+(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace stoa::e2e
