#include "eval/xz_size.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/error.h"

extern char** environ;

namespace stoa::eval {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

std::optional<std::int64_t> xz_size(const std::vector<std::string_view>& parts) {
  // Input through a nameless file: whatever the program does, nobody waits for a pipe to drain.
  const std::unique_ptr<std::FILE, CloseFile> input(std::tmpfile());
  require<IoError>(input != nullptr, "cannot make a temporary file: {}", std::strerror(errno));
  bool written = true;
  for (const auto part : parts)
    written &= std::fwrite(part.data(), 1, part.size(), input.get()) == part.size();
  require<IoError>(
      written && std::fflush(input.get()) == 0 && ::lseek(::fileno(input.get()), 0, SEEK_SET) == 0,
      "cannot write a temporary file: {}", std::strerror(errno));
  std::array<int, 2> output{};
  require<IoError>(::pipe2(output.data(), O_CLOEXEC) == 0, "cannot make a pipe: {}", std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ::fileno(input.get()), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  std::array<char, 3> name{"xz"}, level{"-9"}, to_output{"-c"};
  std::array<char, 4> threads{"-T1"};  // more would cut the input into blocks
  std::array<char*, 5> arguments{name.data(), level.data(), to_output.data(), threads.data(), nullptr};
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, "xz", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(output[1]);
  std::int64_t size = 0;
  if (error == 0) {
    std::vector<char> buffer(1 << 16);
    for (;;) {
      const ssize_t count = ::read(output[0], buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) break;
      size += count;
    }
  }
  ::close(output[0]);
  if (error == ENOENT) return std::nullopt;
  require<IoError>(error == 0, "cannot start 'xz': {}", std::strerror(error));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) return std::nullopt;
  require<IoError>(WIFEXITED(status) && WEXITSTATUS(status) == 0, "'xz -9' failed (status {})", status);
  return size;
}

}  // namespace stoa::eval
