// `stoa checkpoint inspect` of a GGUF file: its keys, and its tensors with the formats of their numbers.
#pragma once

#include <filesystem>

namespace stoa::cli {

void inspect_gguf(const std::filesystem::path& path, bool json);

}  // namespace stoa::cli
