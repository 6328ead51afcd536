#include "cli/run_self.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/timing.h"

namespace stoa::cli {

bool SelfRun::succeeded() const { return !timed_out && WIFEXITED(status) && WEXITSTATUS(status) == 0; }

SelfRun run_self(const std::vector<std::string>& arguments, const fs::path& directory, double most_seconds,
                 const std::stop_token& stop) {
  const fs::path self = fs::read_symlink("/proc/self/exe"), out = directory / "trial.out",
                 err = directory / "trial.err";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int kCreate = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), kCreate, 0644);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), kCreate, 0644);
  std::vector<std::string> words{self.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  // The child must not inherit the mask of signals that this process handles in a separate thread.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const int error = ::posix_spawn(&child, self.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  require<IoError>(error == 0, "{} cannot be started: {}", self.string(), std::strerror(error));
  SelfRun ended;
  const auto begin = std::chrono::steady_clock::now();
  while (::waitpid(child, &ended.status, WNOHANG) == 0) {
    if (stop.stop_requested() || seconds_since(begin) > most_seconds) {
      ended.timed_out = true;
      ::kill(child, SIGKILL);
      ::waitpid(child, &ended.status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ended.output = read_text(out);
  ended.errors = read_text(err);
  fs::remove(out);
  fs::remove(err);
  return ended;
}

std::string last_line(const std::string& text) {
  std::string line;
  std::size_t begin = 0;
  while (begin < text.size()) {
    std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    if (end > begin) line = text.substr(begin, end - begin);
    begin = end + 1;
  }
  return line;
}

}  // namespace stoa::cli
