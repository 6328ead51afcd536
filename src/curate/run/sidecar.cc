#include "curate/run/sidecar.h"

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "curate/run/process.h"

namespace stoa::curate {
namespace {

void append_number(std::uint64_t value, std::size_t bytes, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), bytes);
}

std::uint64_t take_number(std::istream& from, std::size_t bytes) {
  std::uint64_t value = 0;
  from.read(reinterpret_cast<char*>(&value), static_cast<std::streamsize>(bytes));
  require<DataError>(from.good(),
                     "a file of the run's work folder ends too soon; remove the output and run again");
  return value;
}

}  // namespace

void append_side(std::uint32_t text_bytes, std::span<const SideEntry> entries, std::string& out) {
  append_number(text_bytes, 4, out);
  for (const SideEntry& entry : entries) {
    append_number(entry.rank, 4, out);
    append_number(entry.keys.size(), 2, out);
    for (const std::uint64_t key : entry.keys) append_number(key, 8, out);
  }
}

std::string sidecar_end(std::string_view fates) {
  std::string end(fates);
  append_number(fates.size(), 8, end);
  return end;
}

Sidecar::Sidecar(const fs::path& path) : path_(path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  require<IoError>(file.is_open(), "cannot read '{}'", path.string());
  const auto bytes = static_cast<std::uint64_t>(file.tellg());
  require<DataError>(bytes >= 8, "'{}' is damaged", path.string());
  file.seekg(static_cast<std::streamoff>(bytes - 8));
  const std::uint64_t count = take_number(file, 8);
  require<DataError>(count <= bytes - 8, "'{}' is damaged", path.string());
  fates_.resize(count);
  file.seekg(static_cast<std::streamoff>(bytes - 8 - count));
  file.read(fates_.data(), static_cast<std::streamsize>(count));
  require<DataError>(file.good(), "'{}' is damaged", path.string());
  kept_ =
      static_cast<std::uint32_t>(std::count(fates_.begin(), fates_.end(), static_cast<char>(Fate::kKept)));
}

void Sidecar::each(std::size_t deduplications, std::size_t deduplication,
                   const std::function<void(std::uint32_t, const SideEntry&)>& visit) const {
  std::ifstream file(path_, std::ios::binary);
  SideEntry wanted;
  for (std::uint32_t i = 0; i < kept_; ++i) {
    const auto bytes = static_cast<std::uint32_t>(take_number(file, 4));
    for (std::size_t d = 0; d < deduplications; ++d) {
      const auto rank = static_cast<std::uint32_t>(take_number(file, 4));
      const std::uint64_t count = take_number(file, 2);
      if (d != deduplication) {
        file.seekg(static_cast<std::streamoff>(8 * count), std::ios::cur);
        continue;
      }
      wanted.rank = rank;
      wanted.keys.resize(count);
      for (std::uint64_t& key : wanted.keys) key = take_number(file, 8);
    }
    visit(bytes, wanted);
  }
}

}  // namespace stoa::curate
