// What a command reads line by line.
#pragma once

#include <fstream>
#include <string>

namespace stoa::cli {

// The lines of a file, or of standard input for "" and "-".
class InputLines {
 public:
  explicit InputLines(const std::string& path);  // IoError: there is none

  // Without its line end, "\n" or "\r\n", and without a byte order mark; false: there is no more. IoError
  // when it cannot be read; DataError: it is UTF-16 or UTF-32.
  bool next(std::string& line);

 private:
  const bool standard_;
  const std::string name_;
  std::ifstream file_;
  bool first_ = true;
};

}  // namespace stoa::cli
