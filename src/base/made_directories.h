// Directories that a program makes for what it writes, and takes away again where nothing came of it.
#pragma once

#include <filesystem>

namespace stoa {

// Makes a directory and those above it. The highest that was not there, absolute; "": it was there. IoError.
std::filesystem::path make_directories(const std::filesystem::path& path);

// Removes what make_directories() made, `highest` being its answer: `path` and the directories above it, up
// to the first that is not empty.
void remove_made_directories(const std::filesystem::path& path,
                             const std::filesystem::path& highest) noexcept;

}  // namespace stoa
