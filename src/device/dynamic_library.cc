#include "device/dynamic_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "device/library_folders.h"

namespace stoa {

DynamicLibrary::DynamicLibrary(const char* what, std::span<const char* const> names, bool global) {
  const int flags = RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL);
  std::error_code no_program;
  const auto looked =
      library_folders(std::filesystem::read_symlink("/proc/self/exe", no_program).parent_path(),
                      [](const char* name) { return std::getenv(name); });
  std::string last;
  for (const char* name : names) {
    for (const std::string& folder : looked) {
      const std::string path = folder + "/" + name;
      std::error_code error;
      if (!std::filesystem::exists(path, error)) continue;
      handle_ = ::dlopen(path.c_str(), flags);
      if (handle_) {
        path_ = path;
        return;
      }
      last = ::dlerror();
    }
    handle_ = ::dlopen(name, flags);
    if (handle_) {
      path_ = name;
      return;
    }
    if (last.empty()) last = ::dlerror();
  }
  fail<DeviceError>(
      "{} was not found ({}): searched for {} in {} and in the loader's path. Set STOA_CUDA_LIBRARIES to its "
      "directory",
      what, last, fmt::join(names, ", "),
      looked.empty() ? "no folder" : fmt::format("{}", fmt::join(looked, ", ")));
}

DynamicLibrary::~DynamicLibrary() = default;  // handles of the driver stay valid to the end of the process

void* DynamicLibrary::symbol(const char* name) const {
  void* found = ::dlsym(handle_, name);
  require<DeviceError>(found != nullptr, "{} has no function {}: its version is not the expected one", path_,
                       name);
  return found;
}

}  // namespace stoa
