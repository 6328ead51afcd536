#include "infer/engine/file_prints.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/checksum.h"
#include "base/file.h"
#include "ckpt/model_checksums.h"

namespace stoa::infer {
namespace {

constexpr std::uint64_t kWhole = std::uint64_t{512} << 20;  // bytes of all files that are read whole
constexpr std::size_t kEnds = std::size_t{1} << 20, kPiece = std::size_t{64} << 10, kPieces = 64;

bool decides_numbers(const fs::path& file) {
  static const std::set<std::string> kWeights{".safetensors", ".bin", ".pt", ".gguf", ".distcp", ".metadata"};
  static const std::set<std::string> kFiles{"config.json", "adapter_config.json", ckpt::kModelChecksums,
                                            "metadata.json", "common.pt"};
  const std::string name = file.filename().string();
  return kWeights.contains(file.extension().string()) || kFiles.contains(name) ||
         name.ends_with(".index.json");
}

// The files of a model, by name. Those of PyTorch are not read where safetensors are.
std::map<std::string, fs::path> files_of(const fs::path& place) {
  std::map<std::string, fs::path> out;
  if (!fs::is_directory(place)) {
    // Parts of one file are numbered: NAME-00001-of-00003.gguf.
    const std::string name = place.filename().string();
    const std::size_t parts = name.rfind("-of-");
    const bool is_part = parts != std::string::npos && parts > 5;
    const std::string begin = is_part ? name.substr(0, parts - 5) : name,
                      end = is_part ? name.substr(parts) : "";
    for (const auto& entry : fs::directory_iterator(fs::absolute(place).parent_path()))
      if (const std::string other = entry.path().filename().string();
          other == name ||
          (is_part && other.size() == name.size() && other.starts_with(begin) && other.ends_with(end)))
        out.emplace(other, entry.path());
    return out;
  }
  const auto add = [&](const fs::directory_entry& entry) {
    if (entry.is_regular_file() && decides_numbers(entry.path()))
      out.emplace(fs::relative(entry.path(), place).string(), entry.path());
  };
  // A directory of Hugging Face's form may have others in it, of other forms; in one of another program all
  // folders are the checkpoint's.
  if (fs::exists(place / "config.json") || fs::exists(place / "adapter_config.json"))
    for (const auto& entry : fs::directory_iterator(place)) add(entry);
  else
    for (const auto& entry : fs::recursive_directory_iterator(place)) add(entry);
  const bool safe =
      std::ranges::any_of(out, [](const auto& file) { return file.first.ends_with(".safetensors"); });
  if (safe) std::erase_if(out, [](const auto& file) { return file.first.ends_with(".bin"); });
  return out;
}

std::uint64_t checksum_of(const MappedFile& file, bool whole) {
  const std::span<const std::byte> bytes = file.bytes();
  if (whole || bytes.size() <= 2 * kEnds + kPieces * kPiece) return checksum(bytes);
  RunningChecksum sum;
  sum.add(bytes.first(kEnds));
  const std::size_t between = bytes.size() - 2 * kEnds - kPiece;
  for (std::size_t i = 0; i < kPieces; ++i) sum.add(bytes.subspan(kEnds + between / kPieces * i, kPiece));
  sum.add(bytes.last(kEnds));
  return sum.value();
}

// The checksums that are kept next to weights, with which they are compared when the model is opened.
std::map<std::string, std::string> kept_checksums(const std::map<std::string, fs::path>& files) {
  std::map<std::string, std::string> out;
  const auto kept = files.find(ckpt::kModelChecksums);
  if (kept == files.end()) return out;
  const auto sums = nlohmann::json::parse(read_text(kept->second), nullptr, false);
  if (sums.is_object())
    for (const auto& [name, sum] : sums.items())
      if (sum.is_string()) out[name] = sum.get<std::string>();
  return out;
}

}  // namespace

std::map<std::string, std::string> file_prints(const fs::path& place) {
  const std::map<std::string, fs::path> files = files_of(place);
  const std::map<std::string, std::string> kept = kept_checksums(files);
  std::uint64_t all = 0;
  for (const auto& [name, path] : files) all += fs::file_size(path);
  std::map<std::string, std::string> out;
  for (const auto& [name, path] : files) {
    const MappedFile file(path);
    const auto known = kept.find(name);
    out[name] =
        fmt::format("{} bytes, checksum {}", file.size(),
                    known == kept.end() ? checksum_text(checksum_of(file, all <= kWhole)) : known->second);
  }
  return out;
}

std::string different_file(const std::map<std::string, std::string>& here,
                           const std::map<std::string, std::string>& there) {
  for (const auto& [name, print] : there) {
    const auto found = here.find(name);
    if (found == here.end()) return fmt::format("'{}' is missing here", name);
    if (found->second != print)
      return fmt::format("'{}' has {} here, and there {}", name, found->second, print);
  }
  for (const auto& [name, print] : here)
    if (!there.contains(name)) return fmt::format("'{}' is here alone", name);
  return {};
}

}  // namespace stoa::infer
