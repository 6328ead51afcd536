#include "data/file_names.h"

#include "data/byte_source.h"

namespace stoa::data {

std::string extension_of(const fs::path& path) {
  std::string out = path.extension().native();
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::string content_extension(const fs::path& path) {
  return extension_of(compression_of(path) == Compression::kNone ? path : fs::path(path).replace_extension());
}

bool is_table(const fs::path& path) {
  const std::string extension = extension_of(path);
  return extension == ".parquet" || extension == ".arrow";
}

}  // namespace stoa::data
