// Git LFS: what a clone that did not fetch them has in place of large files.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/error.h"

namespace stoa {

// DataError: the file `bytes` is a pointer.
inline void refuse_lfs_pointer(std::span<const std::byte> bytes, std::string_view source) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  require<DataError>(!text.starts_with("version https://git-lfs.github.com/spec/"),
                     "'{}' is a pointer of Git LFS, not the file itself: git lfs pull fetches it", source);
}

}  // namespace stoa
