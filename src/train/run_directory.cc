#include "train/run_directory.h"

#include <system_error>

#include "base/file.h"
#include "base/made_directories.h"

namespace stoa::train {

void RunDirectory::make() {
  made_ = make_directories(path_);
  remove_abandoned(path_);
}

void RunDirectory::discard() noexcept {
  if (!is_new()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  remove_made_directories(path_, made_);  // another process may have put something above it
}

}  // namespace stoa::train
