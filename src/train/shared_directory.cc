#include "train/shared_directory.h"

#include <fmt/format.h>

#include <random>
#include <thread>

#include "base/error.h"
#include "base/file.h"

namespace stoa::train {

namespace fs = std::filesystem;

SharedDirectoryProof::~SharedDirectoryProof() {
  std::error_code ignored;
  if (!file_.empty()) fs::remove(file_, ignored);
  for (const fs::path& path : made_) fs::remove(path, ignored);  // unless another process put something there
}

std::string SharedDirectoryProof::write() {
  std::error_code error;
  const fs::path whole = fs::absolute(directory_).lexically_normal();
  for (fs::path path = whole.has_filename() ? whole : whole.parent_path();
       !path.empty() && !fs::exists(path, error); path = path.parent_path())
    made_.push_back(path);
  fs::create_directories(directory_, error);
  require<IoError>(!error, "cannot create the run directory '{}': {}", directory_.string(), error.message());
  std::random_device device;
  const std::string name = fmt::format(".ranks-{:08x}{:08x}", device(), device());
  file_ = directory_ / name;
  write_text(file_, "");
  return name;
}

bool SharedDirectoryProof::seen(const std::string& name, std::chrono::milliseconds bound) const {
  const auto end = std::chrono::steady_clock::now() + bound;
  for (;;) {
    std::error_code error;
    // Reading the directory makes a network file system ask its server.
    for (fs::directory_iterator entry(directory_, error), last; !error && entry != last;
         entry.increment(error))
      if (entry->path().filename() == name) return true;
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace stoa::train
