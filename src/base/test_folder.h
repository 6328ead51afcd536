// For tests: a folder of one's own. Every test runs as a process beside others, perhaps of another build, so what it
// writes lies here and never under a fixed name.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "base/error.h"

namespace stoa {

// A new folder, removed at the end with all that it holds.
class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "stoa-test-XXXXXX").string();
    require<IoError>(::mkdtemp(name.data()) != nullptr, "cannot make the folder '{}'", name);
    path_ = name;
  }
  ~TestFolder() {
    if (kept_) return;
    std::error_code ignored;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);  // a test may have taken them away
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }
  // It stays, for whoever looks into a failure.
  void keep() { kept_ = true; }

 private:
  std::filesystem::path path_;
  bool kept_ = false;
};

}  // namespace stoa
