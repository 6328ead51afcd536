#include "cli/input_lines.h"

#include <iostream>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "data/detect_encoding.h"
#include "data/file_names.h"
#include "data/json_values.h"

namespace stoa::cli {
namespace {

constexpr std::size_t kPiece = 64 << 10;  // of a file, read at once

}  // namespace

InputLines::InputLines(const std::string& path, bool json)
    : name_(path.empty() || path == "-" ? "standard input" : "'" + path + "'") {
  if (path.empty() || path == "-") return;
  require<IoError>(!fs::is_directory(path), "cannot read {}: it is a directory", name_);
  require<ConfigError>(json || !data::is_table(path), "{} is a table; expected a file of lines", name_);
  file_ = data::open_bytes(path);
  if (json) file_ = data::one_value_per_line(std::move(file_));
}

bool InputLines::read_line(std::string& line) {
  if (!file_) {
    if (std::getline(std::cin, line)) return true;
    require<IoError>(!std::cin.bad(), "cannot read {}", name_);
    return false;
  }
  line.clear();
  for (;;) {
    const std::size_t end = bytes_.find('\n', at_);
    line.append(bytes_, at_, end - at_);
    if (end != std::string::npos) {
      at_ = end + 1;
      return true;
    }
    bytes_.resize(kPiece);
    bytes_.resize(file_->read(bytes_.data(), kPiece));
    at_ = 0;
    if (bytes_.empty()) return !line.empty();  // the last line may have no end
  }
}

bool InputLines::next(std::string& line) {
  if (!read_line(line)) return false;
  constexpr std::string_view kMark = "\xEF\xBB\xBF";  // editors of Windows put it before UTF-8
  if (first_ && line.starts_with(kMark)) line.erase(0, kMark.size());
  if (first_ && line.find('\0') != std::string::npos) {
    const std::string encoding = data::detect_encoding(line).name;
    require<DataError>(!encoding.starts_with("UTF-16") && !encoding.starts_with("UTF-32"),
                       "{0} is {1}, expected UTF-8: iconv -f {1} -t UTF-8 converts it", name_, encoding);
  }
  first_ = false;
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

}  // namespace stoa::cli
