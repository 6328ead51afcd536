#include "cli/input_lines.h"

#include <cerrno>
#include <cstring>
#include <iostream>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "data/detect_encoding.h"

namespace stoa::cli {

InputLines::InputLines(const std::string& path)
    : standard_(path.empty() || path == "-"), name_(standard_ ? "standard input" : "'" + path + "'") {
  if (standard_) return;
  require<IoError>(!fs::is_directory(path), "cannot read {}: it is a directory", name_);
  file_.open(path, std::ios::binary);
  require<IoError>(file_.good(), "cannot read {}: {}", name_, std::strerror(errno));
}

bool InputLines::next(std::string& line) {
  std::istream& in = standard_ ? std::cin : file_;
  if (std::getline(in, line)) {
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
  require<IoError>(!in.bad(), "cannot read {}", name_);
  return false;
}

}  // namespace stoa::cli
