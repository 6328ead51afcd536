#include "device/library_folders.h"

#include <algorithm>

namespace stoa {
namespace {

namespace fs = std::filesystem;

// Names sorted, so that the same one is found every time; empty where there is no such folder.
std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    out.push_back(at->path());
  std::sort(out.begin(), out.end());
  return out;
}

void add_python(const fs::path& prefix, std::vector<std::string>& out) {
  for (const fs::path& python : entries(prefix / "lib")) {
    if (!python.filename().string().starts_with("python")) continue;
    for (const char* packages : {"site-packages", "dist-packages"})
      for (const fs::path& part : entries(python / packages / "nvidia"))
        if (fs::is_directory(part / "lib")) out.push_back((part / "lib").string());
  }
}

}  // namespace

std::vector<std::string> library_folders(const fs::path& program_folder,
                                         const std::function<const char*(const char*)>& variable,
                                         const std::vector<fs::path>& system) {
  std::vector<std::string> out;
  std::string list = variable("STOA_CUDA_LIBRARIES") ? variable("STOA_CUDA_LIBRARIES") : "";
  while (!list.empty()) {
    const auto colon = list.find(':');
    if (colon != 0) out.push_back(list.substr(0, colon));
    list = colon == std::string::npos ? "" : list.substr(colon + 1);
  }
  if (!program_folder.empty()) {
    out.push_back(program_folder.string());
    out.push_back((program_folder.parent_path() / "lib").string());
  }
  if (const char* home = variable("CUDA_HOME")) out.push_back(std::string(home) + "/lib64");
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const char* prefix = variable(name)) add_python(prefix, out);
  if (const char* home = variable("HOME")) add_python(fs::path(home) / ".local", out);
  for (const fs::path& prefix : system) add_python(prefix, out);
  return out;
}

}  // namespace stoa
