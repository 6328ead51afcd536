// Libraries that are found when the program runs, so that it starts without them.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace stoa {

class DynamicLibrary {
 public:
  // The first of `names` found in library_folders() or where the loader looks. DeviceError says where it
  // looked.
  DynamicLibrary(const char* what, std::span<const char* const> names, bool global = false);
  ~DynamicLibrary();
  DynamicLibrary(const DynamicLibrary&) = delete;
  DynamicLibrary& operator=(const DynamicLibrary&) = delete;

  // DeviceError where the library has no such function.
  template <class Function>
  void find(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(symbol(name));
  }
  void* handle() const { return handle_; }
  const std::string& path() const { return path_; }

 private:
  void* symbol(const char* name) const;

  void* handle_ = nullptr;
  std::string path_;
};

}  // namespace stoa
