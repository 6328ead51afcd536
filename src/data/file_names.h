// What a file's name says of its content.
#pragma once

#include <string>

#include "base/file.h"

namespace stoa::data {

// In lower case, as names of old systems are compared: ".txt" of "A.TXT".
std::string extension_of(const fs::path& path);
// That of the content: ".txt" of "a.txt.gz".
std::string content_extension(const fs::path& path);
// Whether it is a table, whose rows are lines of JSON to open_bytes().
bool is_table(const fs::path& path);

}  // namespace stoa::data
