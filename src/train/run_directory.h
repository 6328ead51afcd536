// The directory of a run: created when the run begins, removed if the run fails before it produced anything.
#pragma once

#include <filesystem>

namespace stoa::train {

class RunDirectory {
 public:
  explicit RunDirectory(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  // Creates it and its parents, and removes temporary files of killed runs. IoError.
  void make();
  // Whether make() created it.
  bool is_new() const { return !made_.empty(); }
  // If it is new, removes it with its contents, and the parents that make() created.
  void discard() noexcept;

 private:
  std::filesystem::path path_;
  std::filesystem::path made_;  // the highest directory that make() created, or ""
};

}  // namespace stoa::train
