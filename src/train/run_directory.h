// The directory of a run: made when the run begins, removed again when nothing came of it.
#pragma once

#include <filesystem>

namespace stoa::train {

class RunDirectory {
 public:
  explicit RunDirectory(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  // Makes it and what it lies in, and removes what a killed run left half written. IoError.
  void make();
  // Whether make() found that there was none.
  bool is_new() const { return !made_.empty(); }
  // Removes a new one with all that is in it, and the directories above that make() created.
  void discard() noexcept;

 private:
  std::filesystem::path path_;
  std::filesystem::path made_;  // the highest directory that make() created, or ""
};

}  // namespace stoa::train
