// Files that come with the program: presets, pipelines, tasks, a model of languages.
#pragma once

#include "base/file.h"

namespace stoa {

// `configs` or `share/stoa/configs` in a directory above the program; empty where there is none.
fs::path shipped_directory();
// A file or folder in it ("clusters"). ConfigError says where it was searched for.
fs::path shipped_file(const char* name);

}  // namespace stoa
