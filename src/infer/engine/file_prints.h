// Whether ranks on several hosts read the same files of a model.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace stoa::infer {

namespace fs = std::filesystem;

// The files that decide a model's numbers by name, each as "269060552 bytes, checksum 00ff…". Checksums that
// are kept next to weights (ckpt/model_checksums.h) are taken from there. Other files are read: up to half a
// gigabyte whole; of more, the beginning, the end and samples between. `place`: a directory of a model or an
// adapter, or a .gguf file. IoError.
std::map<std::string, std::string> file_prints(const fs::path& place);

// Names the first file that differs, and how; "": none.
std::string different_file(const std::map<std::string, std::string>& here,
                           const std::map<std::string, std::string>& there);

}  // namespace stoa::infer
