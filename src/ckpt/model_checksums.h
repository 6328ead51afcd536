// Checksums of the weights of a bare model directory, in a file next to them: a checkpoint has its manifest.
#pragma once

#include <filesystem>
#include <string>

namespace stoa::ckpt {

inline constexpr const char* kModelChecksums = "stoa-checksums.json";  // {"model.safetensors": "00ff…"}

// Of every safetensors file of `directory`, by XXH3.
void write_model_checksums(const std::filesystem::path& directory);
// False: the directory has no such file. DataError names the files that are not as they were written.
bool check_model_checksums(const std::filesystem::path& directory);

}  // namespace stoa::ckpt
