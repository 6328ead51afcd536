// Under which licence a source file stands, by the licence files above it.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace stoa::curate {

// The SPDX identifier of the licence that a text is ("MIT"), by phrases that only it has; empty: none that is
// known.
std::string_view licence_named(std::string_view text);

class LicenceFinder {
 public:
  // The licence of the nearest folder above the file that has a licence file (LICENSE…, LICENCE…, COPYING…,
  // COPYRIGHT, UNLICENSE, MIT-LICENSE; no program or list of such a name), up to the top of its repository (a
  // folder with .git). "SPDX-License-Identifier:" in the first 2,048 bytes of the file counts before them.
  // Empty: none; "unknown": a licence file that is none of those known.
  std::string operator()(const std::filesystem::path& file, std::string_view text);

 private:
  const std::string& of_folder(const std::filesystem::path& folder, int depth);
  std::map<std::filesystem::path, std::string> known_;
};

}  // namespace stoa::curate
