// Appending to the files that a run grows.
#pragma once

#include <string_view>

#include "base/file.h"

namespace stoa::watch {

// Appends all of `bytes` to the open file or, if the disk is full, nothing: a partial write is undone, so
// that the file contains whole records. IoError names `path`.
void append_whole(int fd, std::string_view bytes, const fs::path& path);

}  // namespace stoa::watch
