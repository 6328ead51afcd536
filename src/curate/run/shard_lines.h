// The lines of a file of a shard, read again.
#pragma once

#include <string>
#include <string_view>

#include "base/file.h"

namespace stoa::curate {

class ShardLines {
 public:
  explicit ShardLines(const fs::path& path);  // a file that does not exist has no lines
  bool at_end() const { return at_ == bytes_; }
  // The next one with its line end. DataError at the end.
  std::string_view next();
  // Bytes that can be read from the beginning of the line that next() returned last: more than the line has.
  std::size_t readable() const { return text_.size() - begin_; }

 private:
  std::string text_;  // and zeros, as a parser wants them
  std::size_t bytes_ = 0, begin_ = 0, at_ = 0;
};

// The JSON line with further members at its end.
std::string with_members(std::string_view line, std::string_view members);

}  // namespace stoa::curate
