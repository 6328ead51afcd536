#include "curate/run/sidecar.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "curate/run/process.h"

namespace stoa::curate {
namespace {

void append_number(std::uint64_t value, std::size_t bytes, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), bytes);
}

std::uint64_t take_number(std::string_view& from, std::size_t bytes) {
  require<DataError>(from.size() >= bytes,
                     "a file of the run's work folder ends too soon; remove the output and run again");
  std::uint64_t value = 0;
  std::memcpy(&value, from.data(), bytes);
  from.remove_prefix(bytes);
  return value;
}

}  // namespace

void append_side(std::uint32_t text_bytes, std::span<const std::vector<std::uint64_t>> keys,
                 std::string& out) {
  append_number(text_bytes, 4, out);
  for (const auto& own : keys) {
    append_number(own.size(), 2, out);
    for (const std::uint64_t key : own) append_number(key, 8, out);
  }
}

std::string sidecar_content(std::string_view fates, std::string_view records) {
  std::string content;
  append_number(fates.size(), 8, content);
  content += fates;
  return content += records;
}

Sidecar::Sidecar(const fs::path& path) : content_(read_text(path)) {
  std::string_view rest = content_;
  const std::uint64_t count = take_number(rest, 8);
  require<DataError>(count <= rest.size(), "'{}' is damaged", path.string());
  fates_ = rest.substr(0, count);
  records_ = rest.substr(count);
  kept_ =
      static_cast<std::uint32_t>(std::count(fates_.begin(), fates_.end(), static_cast<char>(Fate::kKept)));
}

void Sidecar::each(std::size_t deduplications, std::size_t deduplication,
                   const std::function<void(std::uint32_t, std::span<const std::uint64_t>)>& visit) const {
  std::string_view rest = records_;
  std::vector<std::uint64_t> keys;
  for (std::uint32_t i = 0; i < kept_; ++i) {
    const auto bytes = static_cast<std::uint32_t>(take_number(rest, 4));
    keys.clear();
    for (std::size_t d = 0; d < deduplications; ++d) {
      const std::uint64_t count = take_number(rest, 2);
      for (std::uint64_t k = 0; k < count; ++k) {
        const std::uint64_t key = take_number(rest, 8);
        if (d == deduplication) keys.push_back(key);
      }
    }
    visit(bytes, keys);
  }
}

}  // namespace stoa::curate
