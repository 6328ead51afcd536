#include "device/dynamic_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"

namespace stoa {

namespace {

std::vector<std::string> folders() {
  std::vector<std::string> out;
  const auto add_list = [&](const char* list) {
    std::string text = list ? list : "";
    while (!text.empty()) {
      const auto colon = text.find(':');
      if (colon != 0) out.push_back(text.substr(0, colon));
      text = colon == std::string::npos ? "" : text.substr(colon + 1);
    }
  };
  add_list(std::getenv("STOA_CUDA_LIBRARIES"));
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    out.push_back(program.parent_path().string());
    out.push_back((program.parent_path().parent_path() / "lib").string());
  }
  if (const char* home = std::getenv("CUDA_HOME")) out.push_back(std::string(home) + "/lib64");
  return out;
}

}  // namespace

DynamicLibrary::DynamicLibrary(const char* what, std::span<const char* const> names, bool global) {
  const int flags = RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL);
  const auto looked = folders();
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
      "{} was not found ({}): looked for {} in {} and where the loader looks. Set STOA_CUDA_LIBRARIES to "
      "its folder",
      what, last, fmt::join(names, ", "),
      looked.empty() ? "no folder" : fmt::format("{}", fmt::join(looked, ", ")));
}

DynamicLibrary::~DynamicLibrary() = default;  // handles of the driver stay valid to the end of the process

void* DynamicLibrary::symbol(const char* name) const {
  void* found = ::dlsym(handle_, name);
  require<DeviceError>(found != nullptr, "{} has no function {}: it is another version than expected", path_,
                       name);
  return found;
}

}  // namespace stoa
