#include "data/indexed_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/checksum.h"
#include "base/error.h"
#include "base/nearest.h"

namespace stoa::data {
namespace {

// A missing .idx file is the commonest mistake: name the data sets that the folder does have.
[[noreturn]] void fail_missing(const fs::path& prefix, const char* extension) {
  const fs::path folder = prefix.has_parent_path() ? prefix.parent_path() : fs::path(".");
  std::error_code error;
  std::vector<std::string> present;
  if (fs::is_directory(folder, error)) {
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (entry.path().extension() == ".idx") present.push_back(entry.path().stem().string());
    std::sort(present.begin(), present.end());
  }
  const std::string name = prefix.filename().string();
  std::string hint = did_you_mean(name, present);
  // Megatron's preprocess_data adds the key and the level to the prefix that it was given:
  // corpus_text_document.
  for (const std::string& other : present)
    if (hint.empty() && (other.starts_with(name + "_") || name.starts_with(other + "_")))
      hint = fmt::format(" (did you mean '{}'?)", other);
  fail<IoError>("no token file '{}{}'{}; 'stoa data prepare' writes PREFIX.bin and PREFIX.idx",
                prefix.string(), extension, hint);
}

MappedFile map_part(const fs::path& prefix, const char* extension) {
  const fs::path path = prefix.string() + extension;
  std::error_code error;
  if (!fs::exists(path, error)) fail_missing(prefix, extension);
  return MappedFile(path);
}

}  // namespace

fs::path dataset_prefix(const fs::path& path) {
  if (path.extension() != ".bin" && path.extension() != ".idx") return path;
  fs::path prefix = path;
  return prefix.replace_extension();
}

IndexedDataset::IndexedDataset(const fs::path& prefix)
    : prefix_(dataset_prefix(prefix)),
      idx_file_(map_part(prefix_, ".idx")),
      bin_file_(map_part(prefix_, ".bin")),
      idx_(idx_file_.bytes(), bin_file_.size(), prefix_.string() + ".idx"),
      provenance_(load_provenance(prefix_)) {
  if (!provenance_) return;
  const auto& p = *provenance_;
  require<DataError>(
      p.documents == documents() && p.sequences == sequences() && p.tokens == tokens(),
      "'{}' is not of this data: it says {} documents, {} sequences, {} tokens; the .idx file has {}, {}, {}",
      provenance_path(prefix_).string(), p.documents, p.sequences, p.tokens, documents(), sequences(),
      tokens());
}

void IndexedDataset::read(std::int64_t sequence, std::int64_t offset, std::span<std::int32_t> to) const {
  require<DataError>(sequence >= 0 && sequence < sequences(),
                     "'{}' has {} sequences; number {} was requested", prefix_.string(), sequences(),
                     sequence);
  const std::int64_t n = length(sequence), count = static_cast<std::int64_t>(to.size());
  require<DataError>(offset >= 0 && offset <= n && count <= n - offset,
                     "'{}': sequence {} has {} tokens; asked for {} from {}", prefix_.string(), sequence, n,
                     count, offset);
  const auto width = static_cast<std::int64_t>(token_dtype_bytes(dtype()));
  const std::byte* from = bin_file_.bytes().data() + idx_.offset(sequence) + offset * width;
  require<DataError>(load_tokens(dtype(), from, to.data(), to.size()),
                     "'{}': sequence {} is stored as {} and holds values that are not token ids",
                     prefix_.string(), sequence, token_dtype_name(dtype()));
}

void IndexedDataset::require_ids_below(std::int64_t vocabulary) const {
  std::vector<std::int32_t> ids(1 << 16);
  for (std::int64_t s = 0; s < sequences(); ++s) {
    for (std::int64_t at = 0; at < length(s); at += static_cast<std::int64_t>(ids.size())) {
      const auto count = std::min<std::int64_t>(length(s) - at, static_cast<std::int64_t>(ids.size()));
      const std::span part(ids.data(), static_cast<std::size_t>(count));
      read(s, at, part);
      for (std::size_t i = 0; i < part.size(); ++i)
        require<DataError>(
            part[i] >= 0 && part[i] < vocabulary,
            "'{}': token {} of sequence {} is {}, but the vocabulary has {} entries; the data was made with "
            "another tokenizer",
            prefix_.string(), at + static_cast<std::int64_t>(i), s, part[i], vocabulary);
    }
  }
}

bool IndexedDataset::verify_checksums() const {
  if (!provenance_ || provenance_->bin_checksum.empty()) return false;
  const auto check = [&](std::span<const std::byte> bytes, const std::string& expected,
                         const char* extension) {
    const std::string found = checksum_text(checksum(bytes));
    require<DataError>(found == expected, "'{}{}' is damaged: checksum {}, expected {}", prefix_.string(),
                       extension, found, expected);
  };
  check(bin_bytes(), provenance_->bin_checksum, ".bin");
  check(idx_bytes(), provenance_->idx_checksum, ".idx");
  return true;
}

std::uint64_t IndexedDataset::index_checksum() const { return checksum(idx_bytes()); }

}  // namespace stoa::data
