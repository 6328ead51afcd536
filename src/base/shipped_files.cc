#include "base/shipped_files.h"

#include "base/error.h"

namespace stoa {

fs::path shipped_directory() {
  std::error_code error;
  fs::path directory = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (int up = 0; up < 6 && !directory.empty(); ++up) {
    for (const char* place : {"configs", "share/stoa/configs"}) {
      if (fs::is_regular_file(directory / place / "tiny.yaml", error)) return directory / place;
    }
    if (directory == directory.parent_path()) break;
    directory = directory.parent_path();
  }
  return {};
}

fs::path shipped_file(const char* name) {
  const fs::path directory = shipped_directory();
  std::error_code error;
  require<ConfigError>(!directory.empty(),
                       "configs/{} is part of the program and is missing: it is searched for in configs or "
                       "share/stoa/configs in the directories above '{}'",
                       name, fs::read_symlink("/proc/self/exe", error).string());
  require<ConfigError>(fs::exists(directory / name, error), "'{}' is part of the program and is missing",
                       (directory / name).string());
  return directory / name;
}

}  // namespace stoa
