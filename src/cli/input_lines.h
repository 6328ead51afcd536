// What a command reads line by line.
#pragma once

#include <memory>
#include <string>

#include "data/byte_source.h"

namespace stoa::cli {

// The lines of a file, or of standard input for "" and "-". Compressed files (.gz, .bz2, .zst) are read as
// what is in them.
class InputLines {
 public:
  // `json`: the lines are values of JSON; those of an array, or that span lines, are a line each, and so are
  // the rows of a .parquet or .arrow file. IoError: there is no file. ConfigError: it is a table without
  // `json`.
  explicit InputLines(const std::string& path, bool json = false);

  // Without its line end, "\n" or "\r\n", and without a byte order mark; false: there is no more. IoError
  // when it cannot be read; DataError: it is UTF-16 or UTF-32, or what is compressed is invalid.
  bool next(std::string& line);

 private:
  bool read_line(std::string& line);

  const std::string name_;
  std::unique_ptr<data::ByteSource> file_;  // null: standard input
  std::string bytes_;                       // read, of the file
  std::size_t at_ = 0;                      // handed out, of bytes_
  bool first_ = true;
};

}  // namespace stoa::cli
