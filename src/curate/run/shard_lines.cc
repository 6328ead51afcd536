#include "curate/run/shard_lines.h"

#include <fmt/format.h>

#include "base/error.h"
#include "data/text_reader.h"

namespace stoa::curate {

ShardLines::ShardLines(const fs::path& path) {
  if (fs::exists(path)) text_ = read_text(path);
  bytes_ = text_.size();
  text_.resize(bytes_ + data::kBlockPadding);
}

std::string_view ShardLines::next() {
  const std::size_t end = std::string_view(text_).substr(0, bytes_).find('\n', at_);
  require<DataError>(end != std::string_view::npos,
                     "a file of the run has too few lines; remove the output and run again");
  begin_ = at_;
  at_ = end + 1;
  return std::string_view(text_).substr(begin_, at_ - begin_);
}

std::string with_members(std::string_view line, std::string_view members) {
  return fmt::format("{},{}}}\n", line.substr(0, line.size() - 2), members);
}

}  // namespace stoa::curate
