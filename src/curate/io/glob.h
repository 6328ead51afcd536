// Files by patterns, in an order that does not depend on the system's locale.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"

namespace stoa::curate {

// Whether a path has * ? or [ in it.
bool is_pattern(const std::string& path);

// The files and folders that a pattern names, sorted by their bytes: * ? [a-z] within a name (a leading dot
// is matched by a dot only), ** any number of folders (no hidden ones, and no symbolic links).
std::vector<fs::path> expand_pattern(const std::string& pattern);

}  // namespace stoa::curate
