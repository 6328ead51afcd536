// Whether processes on several hosts see one directory.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace stoa::train {

class SharedDirectoryProof {
 public:
  explicit SharedDirectoryProof(std::filesystem::path directory) : directory_(std::move(directory)) {}
  ~SharedDirectoryProof();  // what was made is gone
  SharedDirectoryProof(const SharedDirectoryProof&) = delete;
  SharedDirectoryProof& operator=(const SharedDirectoryProof&) = delete;

  // Creates a file in the directory, which is created if needed, and returns its unique name. IoError.
  std::string write();
  // Whether the file that another process wrote is there, at the latest after `bound`.
  bool seen(const std::string& name, std::chrono::milliseconds bound) const;

 private:
  const std::filesystem::path directory_;
  std::filesystem::path file_;
  std::vector<std::filesystem::path> made_;  // directories, the innermost first
};

}  // namespace stoa::train
