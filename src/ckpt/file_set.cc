#include "ckpt/file_set.h"

#include <algorithm>

#include "base/error.h"

namespace stoa::ckpt {

std::span<const std::byte> FileSet::at(const std::string& name) const {
  const auto found = find(name);
  require<IoError>(found.has_value(), "'{}' holds no file '{}'", path().string(), name);
  return *found;
}

std::string FileSet::text(const std::string& name) const {
  const auto bytes = at(name);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::optional<std::span<const std::byte>> FolderFiles::find(const std::string& name) const {
  const std::lock_guard lock(opening_);
  auto known = maps_.find(name);
  if (known == maps_.end()) {
    std::error_code error;
    if (!fs::is_regular_file(folder_ / name, error)) return std::nullopt;
    known = maps_.emplace(name, MappedFile(folder_ / name)).first;
  }
  return known->second.bytes();
}

std::vector<std::string> FolderFiles::names() const {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder_, error), end; !error && it != end; it.increment(error))
    if (std::error_code ignored; it->is_regular_file(ignored))
      out.push_back(it->path().lexically_relative(folder_).generic_string());
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> FilesBelow::names() const {
  std::vector<std::string> out;
  for (const std::string& name : all_->names())
    if (name.starts_with(folder_ + "/")) out.push_back(name.substr(folder_.size() + 1));
  return out;
}

}  // namespace stoa::ckpt
