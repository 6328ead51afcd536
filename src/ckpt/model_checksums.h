// Checksums of the weights of a plain model directory, in a file next to them (checkpoints: the manifest).
#pragma once

#include <filesystem>
#include <string>

namespace stoa::ckpt {

inline constexpr const char* kModelChecksums = "stoa-checksums.json";  // {"model.safetensors": "00ff…"}

// Writes the XXH3 checksums of all safetensors files of `directory`.
void write_model_checksums(const std::filesystem::path& directory);
// False: the directory has no such file. DataError names the files whose content has changed.
bool check_model_checksums(const std::filesystem::path& directory);

}  // namespace stoa::ckpt
