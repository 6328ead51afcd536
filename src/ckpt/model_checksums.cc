#include "ckpt/model_checksums.h"

#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/error.h"
#include "base/file.h"

namespace stoa::ckpt {

void write_model_checksums(const std::filesystem::path& directory,
                           const std::map<std::string, std::uint64_t>& known) {
  nlohmann::json sums = nlohmann::json::object();
  for (const auto& item : fs::directory_iterator(directory)) {
    if (!item.is_regular_file() || item.path().extension() != ".safetensors") continue;
    const std::string name = item.path().filename().string();
    const auto found = known.find(name);
    sums[name] = checksum_text(found == known.end() ? checksum_file(item.path()) : found->second);
  }
  write_text(directory / kModelChecksums, sums.dump(1) + "\n");
}

bool check_model_checksums(const std::filesystem::path& directory) {
  const fs::path path = directory / kModelChecksums;
  std::error_code error;
  if (!fs::exists(path, error)) return false;
  const auto sums = nlohmann::json::parse(read_text(path), nullptr, /*allow_exceptions=*/false);
  require<DataError>(sums.is_object(), "'{}' is damaged: it is not a JSON object", path.string());
  std::string problems;
  for (const auto& [name, written] : sums.items()) {
    require<DataError>(written.is_string() && fs::path(name).filename() == name,
                       "'{}' is damaged: it names '{}'", path.string(), name);
    if (!fs::exists(directory / name, error)) {
      problems += fmt::format("\n{}: missing", name);
      continue;
    }
    const std::string found = checksum_text(checksum_file(directory / name));
    if (found != written.get_ref<const std::string&>())
      problems += fmt::format("\n{}: checksum {} instead of {}", name, found, written.get<std::string>());
  }
  require<DataError>(problems.empty(),
                     "the weights in '{}' differ from what was exported:{}\nif they were changed on purpose, "
                     "remove '{}'",
                     directory.string(), problems, path.string());
  return true;
}

}  // namespace stoa::ckpt
