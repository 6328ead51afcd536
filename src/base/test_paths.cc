#include "base/test_paths.h"

namespace stoa::test {

std::filesystem::path source_dir() { return STOA_SOURCE_DIR; }
std::filesystem::path program() { return STOA_PROGRAM; }

}  // namespace stoa::test
