// Which source files StarCoder's data has, by language and extension, and with which limits.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace stoa::curate {

struct ExtensionLimits {
  std::string_view language, extension;  // "c-sharp", "cs"
  bool included;
  int longest_line;                 // 0: any, as all limits
  double alphanumeric, alphabetic;  // smallest shares of characters
};

// The entry of a file of that language, by GitHub's name or in lower case with hyphens; nullptr: none.
const ExtensionLimits* find_extension_limits(std::string_view language, std::string_view path);

// Data (extension_limits_data.cc), by language and extension.
std::span<const ExtensionLimits> extension_limits();

}  // namespace stoa::curate
