#include "data/file_kind.h"

#include <cstddef>
#include <string>
#include <utility>

#include "base/error.h"
#include "data/file_names.h"

namespace stoa::data {
namespace {

using namespace std::string_view_literals;

struct FileKind {
  std::size_t at;
  std::string_view bytes, what;
};
constexpr FileKind kKinds[] = {
    {0, "\x1f\x8b"sv, "is gzip data: give it a name that ends with .gz"sv},
    {0, "\x28\xb5\x2f\xfd"sv, "is zstd data: give it a name that ends with .zst"sv},
    {0, "BZh91AY&SY"sv, "is bzip2 data: give it a name that ends with .bz2"sv},
    {0, "PAR1"sv, "is a Parquet file: give it a name that ends with .parquet"sv},
    {0, "ARROW1"sv, "is an Arrow file: give it a name that ends with .arrow"sv},
    {0,
     "\xfd"
     "7zXZ\0"sv,
     "is xz data, which is not read: compress it by gzip or zstd"sv},
    {0, "7z\xbc\xaf\x27\x1c"sv, "is a 7z archive, which is not read: unpack it"sv},
    {0, "\x04\x22\x4d\x18"sv, "is LZ4 data, which is not read: compress it by gzip or zstd"sv},
    {0, "PK\x03\x04"sv, "is a zip archive (so are .xlsx and .ods): unpack it, or save the table as .csv"sv},
    {0, "%PDF-"sv, "is a PDF file, which is not read: extract its text"sv},
    {257, "ustar"sv, "is a tar archive, which is not read: unpack it"sv},
};

}  // namespace

std::string_view advice_for(const fs::path& path) {
  constexpr std::pair<std::string_view, std::string_view> kAdvice[] = {
      {".csv", "convert it to .parquet or .jsonl"},
      {".tsv", "convert it to .parquet or .jsonl"},
      {".xz", "compress it by gzip or zstd instead"},
      {".lzma", "compress it by gzip or zstd instead"},
      {".lz4", "compress it by gzip or zstd instead"},
      {".7z", "unpack it"},
      {".zip", "unpack it"},
      {".tar", "unpack it"},
      {".tgz", "unpack it"},
      {".jl", "name it .jsonl if it holds JSON lines"},
      {".pq", "name it .parquet"},
      {".parq", "name it .parquet"},
      {".feather", "name it .arrow if it is of version 2"},
      {".orc", "convert it to .parquet"},
      {".pdf", "extract its text"},
      {".epub", "unpack it; its pages are .xhtml"},
  };
  const std::string outer = extension_of(path), inner = content_extension(path);
  for (const auto& [extension, advice] : kAdvice)
    if (extension == outer || extension == inner) return advice;
  return "name it by its kind";
}

std::string_view other_kind(std::string_view head) {
  for (const FileKind& kind : kKinds)
    if (head.size() > kind.at && head.substr(kind.at).starts_with(kind.bytes)) return kind.what;
  return {};
}

bool is_utf16(std::string_view head) { return head.starts_with("\xFF\xFE") || head.starts_with("\xFE\xFF"); }

void require_utf8_text(std::string_view head, std::string_view name) {
  const std::string_view other = other_kind(head);
  require<DataError>(other.empty(), "{} {}", name, other);
  require<DataError>(!is_utf16(head), "{} is UTF-16 text; save it as UTF-8", name);
}

}  // namespace stoa::data
