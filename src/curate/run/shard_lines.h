// The lines of a file of a shard, read again, a piece of the file at a time.
#pragma once

#include <fstream>
#include <string>
#include <string_view>

#include "base/file.h"

namespace stoa::curate {

class ShardLines {
 public:
  explicit ShardLines(const fs::path& path);  // a file that does not exist has no lines
  bool at_end();
  // The next one with its line end, until the next call of a member. DataError at the end.
  std::string_view next();
  // Bytes that can be read from the beginning of the line that next() returned last: more than the line has.
  std::size_t readable() const { return buffer_.size() - begin_; }

 private:
  bool refill();  // false: nothing is left

  std::ifstream file_;
  std::string buffer_;  // with padding at its end, as a parser wants it
  std::size_t begin_ = 0, at_ = 0, end_ = 0;
};

// The JSON line with further members at its end.
std::string with_members(std::string_view line, std::string_view members);

}  // namespace stoa::curate
