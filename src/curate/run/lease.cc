#include "curate/run/lease.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <mutex>
#include <optional>

#include "base/error.h"

namespace stoa::curate {
namespace {

std::string holder_name() {
  char host[256] = "host";
  ::gethostname(host, sizeof(host) - 1);
  return fmt::format("{}-{}", host, ::getpid());
}

// Whether there was none yet.
bool make_alone(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  require<IoError>(fd >= 0 || errno == EEXIST, "cannot write '{}': {}", path.string(), std::strerror(errno));
  if (fd < 0) return false;
  const std::string name = holder_name() + "\n";
  const bool written = ::write(fd, name.data(), name.size()) == static_cast<ssize_t>(name.size());
  ::close(fd);
  require<IoError>(written, "cannot write '{}'", path.string());
  return true;
}

std::optional<std::chrono::nanoseconds> changed_at(const fs::path& path) {
  struct stat state {};
  if (::stat(path.c_str(), &state) != 0) return std::nullopt;
  return std::chrono::seconds(state.st_mtim.tv_sec) + std::chrono::nanoseconds(state.st_mtim.tv_nsec);
}

// Whether the holder was a process of this machine that has ended.
bool holder_has_ended(const fs::path& path) {
  std::ifstream file(path);
  std::string name;
  std::getline(file, name);
  const std::size_t dash = name.rfind('-');
  pid_t process = 0;
  if (dash == name.npos || name.substr(0, dash) != holder_name().substr(0, holder_name().rfind('-')) ||
      std::from_chars(name.data() + dash + 1, name.data() + name.size(), process).ec != std::errc())
    return false;
  return ::kill(process, 0) != 0 && errno == ESRCH;
}

// What the file system takes for now.
std::chrono::nanoseconds time_of(const fs::path& folder) {
  const fs::path probe = folder / fmt::format("now-{}-{}", holder_name(), ::gettid());
  write_text(probe, "");
  const auto now = changed_at(probe);
  std::error_code ignored;
  fs::remove(probe, ignored);
  require<IoError>(now.has_value(), "'{}' was removed while it was in use", folder.string());
  return *now;
}

}  // namespace

std::unique_ptr<Lease> Lease::take(const fs::path& folder, const std::string& name,
                                   std::chrono::milliseconds lifetime) {
  const fs::path path = folder / name;
  if (!make_alone(path)) {
    const auto changed = changed_at(path);
    if (changed && !holder_has_ended(path) && time_of(folder) - *changed < lifetime) return nullptr;
    // Several may see that it is old; one of them moves it away.
    const fs::path old = folder / fmt::format("old-{}-{}", name, holder_name());
    if (changed && ::rename(path.c_str(), old.c_str()) != 0) return nullptr;
    std::error_code ignored;
    fs::remove(old, ignored);
    if (!make_alone(path)) return nullptr;
  }
  return std::unique_ptr<Lease>(new Lease(path, lifetime));
}

Lease::Lease(fs::path path, std::chrono::milliseconds lifetime)
    : path_(std::move(path)), keeper_([this, lifetime](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any ended;
        std::unique_lock lock(mutex);
        while (!ended.wait_for(lock, stop, lifetime / 4, [&] { return stop.stop_requested(); }))
          ::utimensat(AT_FDCWD, path_.c_str(), nullptr, 0);
      }) {}

Lease::~Lease() {
  keeper_.request_stop();
  keeper_.join();
  std::error_code ignored;
  fs::remove(path_, ignored);
}

}  // namespace stoa::curate
