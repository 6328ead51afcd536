#include "ckpt/shard_index.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace stoa::ckpt {

ShardIndex::ShardIndex(const fs::path& path) : path_(path) {
  constexpr std::uintmax_t kMaxIndexBytes = 256'000'000;
  require<DataError>(fs::file_size(path) <= kMaxIndexBytes, "'{}' is too large for an index", path.string());
  const auto json = nlohmann::json::parse(read_text(path), nullptr, /*allow_exceptions=*/false);
  require<DataError>(json.is_object() && json.contains("weight_map") && json["weight_map"].is_object(),
                     "'{}' is not an index of tensors: it has no object 'weight_map'", path.string());
  for (const auto& [name, value] : json["weight_map"].items()) {
    require<DataError>(value.is_string(), "'{}' maps '{}' to something that is not a file name",
                       path.string(), name);
    const auto& file = value.get_ref<const std::string&>();
    // An index must not reach out of its directory.
    require<DataError>(!file.empty() && file.find('/') == std::string::npos &&
                           file.find('\0') == std::string::npos && file != "..",
                       "'{}' maps '{}' to '{}': only files of its own directory are allowed", path.string(),
                       name, file);
    file_of_.emplace(name, file);
    files_.insert(file);
  }
  std::string missing;
  for (const auto& file : files_)
    if (!fs::exists(path.parent_path() / file)) missing += "\n  " + file;
  require<IoError>(missing.empty(), "'{}' names files that do not exist:{}", path.string(), missing);
}

void ShardIndex::require_all(const std::function<bool(const std::string&)>& found) const {
  std::string lost;
  for (const auto& [name, file] : file_of_)
    if (!found(name)) lost += fmt::format("\n  {} (in {})", name, file);
  require<DataError>(lost.empty(), "'{}' names tensors that the files do not contain:{}", path_.string(),
                     lost);
}

}  // namespace stoa::ckpt
