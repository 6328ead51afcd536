// Named files, read through memory maps: those of a folder, or of an archive.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"

namespace stoa::ckpt {

class FileSet {
 public:
  virtual ~FileSet() = default;
  // Where they lie, for messages.
  virtual fs::path path() const = 0;
  // A regular file: `name` may have folders ("weights/.metadata"). The bytes live as long as this.
  virtual std::optional<std::span<const std::byte>> find(const std::string& name) const = 0;
  virtual std::vector<std::string> names() const = 0;  // of all files, sorted

  // IoError: there is none of this name.
  std::span<const std::byte> at(const std::string& name) const;
  std::string text(const std::string& name) const;
  bool has(const std::string& name) const { return find(name).has_value(); }
};

class FolderFiles final : public FileSet {
 public:
  explicit FolderFiles(fs::path folder) : folder_(std::move(folder)) {}
  fs::path path() const override { return folder_; }
  std::optional<std::span<const std::byte>> find(const std::string& name) const override;
  std::vector<std::string> names() const override;

 private:
  const fs::path folder_;
  mutable std::mutex opening_;
  mutable std::map<std::string, MappedFile> maps_;
};

// A folder of another set.
class FilesBelow final : public FileSet {
 public:
  // `folder`: "weights".
  FilesBelow(std::shared_ptr<const FileSet> all, std::string folder)
      : all_(std::move(all)), folder_(std::move(folder)) {}
  fs::path path() const override { return all_->path() / folder_; }
  std::optional<std::span<const std::byte>> find(const std::string& name) const override {
    return all_->find(folder_ + "/" + name);
  }
  std::vector<std::string> names() const override;

 private:
  const std::shared_ptr<const FileSet> all_;
  const std::string folder_;
};

}  // namespace stoa::ckpt
