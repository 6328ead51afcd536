#include "cli/answer_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/timing.h"

namespace stoa::cli {
namespace {

constexpr double kSaveSeconds = 5;

fs::path with_suffix(const fs::path& path, const char* suffix) { return path.string() + suffix; }

}  // namespace

AnswerFile::AnswerFile(fs::path path, const Json& origin)
    : path_(std::move(path)),
      partial_(with_suffix(path_, ".partial")),
      origin_path_(with_suffix(path_, ".partial.json")),
      saved_(std::chrono::steady_clock::now()) {
  require<ConfigError>(!fs::exists(path_), "'{}' exists: remove it, or choose another name", path_.string());
  const bool goes_on = fs::exists(partial_) && fs::exists(origin_path_) && fs::file_size(partial_) > 0;
  if (goes_on) compare_origin(origin);
  file_ = ::open(partial_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  require<IoError>(file_ >= 0, "cannot write '{}': {}", partial_.string(), std::strerror(errno));
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(file_);
    fail<ConfigError>("'{}' is being written by another process", partial_.string());
  }
  if (goes_on) {
    read_found();
    return;
  }
  require<IoError>(::ftruncate(file_, 0) == 0, "cannot write '{}': {}", partial_.string(),
                   std::strerror(errno));
  write_text(origin_path_, origin.dump(2) + "\n");
}

AnswerFile::~AnswerFile() {
  // Without an answer there is nothing to continue.
  std::error_code ignored;
  if (fs::file_size(partial_, ignored) == 0 && !ignored) {
    fs::remove(partial_, ignored);
    fs::remove(origin_path_, ignored);
  }
  if (file_ >= 0) ::close(file_);
}

void AnswerFile::compare_origin(const Json& origin) const {
  const Json before = Json::parse(read_text(origin_path_), nullptr, false);
  require<ConfigError>(before.is_object(), "'{}' is damaged: remove it and '{}' to begin again",
                       origin_path_.string(), partial_.string());
  const auto text = [](const Json& object, const std::string& key) {
    return object.contains(key) ? object[key].dump() : std::string("not given");
  };
  for (const Json* keys : {&before, &origin})
    for (const auto& [key, value] : keys->items())
      require<ConfigError>(
          text(before, key) == text(origin, key),
          "'{}' holds answers of another command: its {} is {}, here it is {}; finish it with that "
          "command, or remove it to begin again",
          partial_.string(), key, text(before, key), text(origin, key));
}

// A line that was being written is cut off.
void AnswerFile::read_found() {
  std::size_t kept = 0;
  {
    const MappedFile map(partial_);
    const std::string_view text = map.text();
    std::string_view last;
    for (std::size_t end; (end = text.find('\n', kept)) != std::string_view::npos; kept = end + 1) {
      last = text.substr(kept, end - kept);
      ++found_;
    }
    if (found_ > 0) {
      const Json line = Json::parse(last, nullptr, false);
      require<DataError>(line.is_object() && line.contains("line") && line["line"].is_number_integer(),
                         "'{}': its last line is no answer; remove it to begin again", partial_.string());
      last_line_ = line["line"].get<std::int64_t>();
    }
  }
  require<IoError>(::ftruncate(file_, static_cast<off_t>(kept)) == 0 && ::lseek(file_, 0, SEEK_END) >= 0,
                   "cannot write '{}': {}", partial_.string(), std::strerror(errno));
}

void AnswerFile::write(const Json& answer) {
  const std::string line = answer.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  for (std::size_t at = 0; at < line.size();) {
    const ::ssize_t count = ::write(file_, line.data() + at, line.size() - at);
    if (count < 0 && errno == EINTR) continue;
    require<IoError>(count > 0, "cannot write '{}': {}", partial_.string(), std::strerror(errno));
    at += static_cast<std::size_t>(count);
  }
  if (seconds_since(saved_) > kSaveSeconds) save();
}

void AnswerFile::save() {
  require<IoError>(::fdatasync(file_) == 0, "cannot write '{}': {}", partial_.string(), std::strerror(errno));
  saved_ = std::chrono::steady_clock::now();
}

void AnswerFile::commit() {
  save();
  fs::rename(partial_, path_);
  sync_directory(fs::absolute(path_).parent_path());
  fs::remove(origin_path_);
}

}  // namespace stoa::cli
