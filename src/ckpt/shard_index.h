// The index of a model in several files: {"weight_map": {tensor: file}}, as Hugging Face writes it.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "base/file.h"

namespace stoa::ckpt {

class ShardIndex {
 public:
  // DataError: damaged, or it names a file outside its directory. IoError: files that do not exist, all of
  // them.
  explicit ShardIndex(const fs::path& path);

  const std::set<std::string>& files() const { return files_; }  // names within the directory
  // DataError lists the tensors that `found` does not know.
  void require_all(const std::function<bool(const std::string& tensor)>& found) const;

 private:
  fs::path path_;
  std::map<std::string, std::string> file_of_;
  std::set<std::string> files_;
};

}  // namespace stoa::ckpt
