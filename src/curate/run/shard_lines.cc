#include "curate/run/shard_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "data/text_reader.h"

namespace stoa::curate {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;

}  // namespace

ShardLines::ShardLines(const fs::path& path) : buffer_(data::kBlockPadding, '\0') {
  if (!fs::exists(path)) return;
  file_.open(path, std::ios::binary);
  require<IoError>(file_.is_open(), "cannot read '{}'", path.string());
}

bool ShardLines::refill() {
  if (!file_.is_open()) return false;
  std::memmove(buffer_.data(), buffer_.data() + at_, end_ - at_);
  end_ -= at_;
  at_ = begin_ = 0;
  buffer_.resize(std::max(buffer_.size(), end_ + kPiece + data::kBlockPadding));  // a long line: longer yet
  file_.read(buffer_.data() + end_,
             static_cast<std::streamsize>(buffer_.size() - data::kBlockPadding - end_));
  const auto got = static_cast<std::size_t>(file_.gcount());
  require<IoError>(!file_.bad(), "a file of the run cannot be read");
  end_ += got;
  if (got == 0) file_.close();
  return got > 0;
}

bool ShardLines::at_end() { return at_ == end_ && !refill(); }

std::string_view ShardLines::next() {
  for (std::size_t from = at_;;) {
    const std::size_t found = std::string_view(buffer_).substr(0, end_).find('\n', from);
    if (found != std::string_view::npos) {
      begin_ = at_;
      at_ = found + 1;
      return std::string_view(buffer_).substr(begin_, at_ - begin_);
    }
    from = end_ - at_;  // what refill() moves to the beginning has no end of a line
    require<DataError>(refill(), "a file of the run has too few lines; remove the output and run again");
  }
}

std::string with_members(std::string_view line, std::string_view members) {
  return fmt::format("{},{}}}\n", line.substr(0, line.size() - 2), members);
}

}  // namespace stoa::curate
