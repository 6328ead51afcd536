// Checksums of the weights of a plain model directory, in a file next to them (checkpoints: the manifest).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace stoa::ckpt {

inline constexpr const char* kModelChecksums = "stoa-checksums.json";  // {"model.safetensors": "00ff…"}

// Writes the XXH3 checksums of all safetensors files of `directory`; those of the files in `known` are not
// read again.
void write_model_checksums(const std::filesystem::path& directory,
                           const std::map<std::string, std::uint64_t>& known = {});
// False: the directory has no such file. DataError names the files whose content has changed.
bool check_model_checksums(const std::filesystem::path& directory);

}  // namespace stoa::ckpt
