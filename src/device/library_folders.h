// Where NVIDIA's libraries may be found, which Stoa opens at run time.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace stoa {

// In the order in which they are tried: $STOA_CUDA_LIBRARIES (folders, colon-separated), `program_folder` and
// its
// ../lib, $CUDA_HOME/lib64, and what Python's packages (nvidia-cublas, nvidia-cudnn-cu13, torch's own) bring:
// the folders nvidia/*/lib of $VIRTUAL_ENV, $CONDA_PREFIX, $HOME/.local and of `system` (the Pythons of the
// machine). `variable` is getenv.
std::vector<std::string> library_folders(const std::filesystem::path& program_folder,
                                         const std::function<const char*(const char*)>& variable,
                                         const std::vector<std::filesystem::path>& system = {"/usr/local",
                                                                                             "/usr"});

}  // namespace stoa
