#include "tune/record_file.h"

#include <algorithm>

#include "base/error.h"
#include "base/escape.h"
#include "data/byte_source.h"
#include "data/file_kind.h"
#include "tune/table_records.h"

namespace stoa::tune {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::size_t kDeepest = 100;  // brackets in a record

std::string read_all(const fs::path& path, const std::stop_token& stop) {
  const auto source = data::open_bytes(path);
  constexpr std::size_t kPiece = 1 << 20;
  std::string out;
  for (std::size_t size = 0;;) {
    require<Interrupted>(!stop.stop_requested(), "interrupted while the data was read");
    out.resize(size + kPiece);
    const std::size_t got = source->read(out.data() + size, kPiece);
    size += got;
    if (got > 0) continue;
    out.resize(size);
    return out;
  }
}

// Behind a byte order mark.
std::size_t begin_of_text(std::string_view content) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return content.starts_with(kMark) ? kMark.size() : 0;
}

// Walks over JSON and knows how deep it is; what is within a string does not count.
class Brackets {
 public:
  // The depth after `c`.
  std::size_t take(char c) {
    if (in_string_) {
      if (escaped_)
        escaped_ = false;
      else if (c == '\\')
        escaped_ = true;
      else if (c == '"')
        in_string_ = false;
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '[' || c == '{') {
      ++depth_;
    } else if ((c == ']' || c == '}') && depth_ > 0) {
      --depth_;
    }
    return depth_;
  }
  bool in_string() const { return in_string_; }

 private:
  std::size_t depth_ = 0;
  bool in_string_ = false, escaped_ = false;
};

}  // namespace

RecordFile::RecordFile(const fs::path& path, const std::stop_token& stop)
    : RecordFile(path.string(), read_all(path, stop)) {}

RecordFile::RecordFile(std::string name, std::string content) : name_(std::move(name)) {
  data::require_utf8_text(content, name_);
  const std::size_t first = content.find_first_not_of(kSpace, begin_of_text(content));
  const bool json = first != std::string::npos && (content[first] == '{' || content[first] == '[');
  if (is_table(name_) && !json) content = table_records(content, name_);
  content_ = std::make_unique<const std::string>(std::move(content));
  find_records();
}

void RecordFile::find_records() {
  const std::size_t first = content_->find_first_not_of(kSpace, begin_of_text(*content_));
  if (first != std::string::npos && (*content_)[first] == '[')
    split_array(first);
  else
    split_lines();
  require<DataError>(!records_.empty(),
                     "{} holds no records; expected JSON objects, one per line or in an array, or rows of a "
                     ".csv or .tsv file",
                     name_);
}

void RecordFile::split_lines() {
  std::string_view rest = std::string_view(*content_).substr(begin_of_text(*content_));
  for (std::int64_t line = 1; !rest.empty(); ++line) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view text = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (text.find_first_not_of(kSpace) != text.npos) records_.push_back({text, line});
  }
}

void RecordFile::split_array(std::size_t begin) {
  const std::string_view all = *content_;
  Brackets brackets;
  std::size_t from = begin + 1;
  const auto add = [&](std::size_t end) {
    const std::string_view text = all.substr(from, end - from);
    if (text.find_first_not_of(kSpace) != text.npos)
      records_.push_back({text, static_cast<std::int64_t>(records_.size()) + 1});
    from = end + 1;
  };
  for (std::size_t i = begin; i < all.size(); ++i) {
    const std::size_t depth = brackets.take(all[i]);
    if (depth == 0) {
      add(i);
      const std::size_t more = all.find_first_not_of(kSpace, i + 1);
      require<DataError>(more == all.npos, "{}: something follows the JSON array at byte {}", name_, more);
      return;
    }
    if (depth == 1 && all[i] == ',' && !brackets.in_string()) add(i);
  }
  fail<DataError>("{}: the JSON array does not end; is the file complete?", name_);
}

Json parse_json(std::string_view text, const Place& place) {
  Brackets brackets;
  const bool deep =
      std::any_of(text.begin(), text.end(), [&](char c) { return brackets.take(c) > kDeepest; });
  require<DataError>(!deep, "{}: JSON nested more than {} deep", place.text(), kDeepest);
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    std::string_view why =
        error.what();  // "[json.exception.parse_error.101] parse error at line 1, column 2: …"
    why.remove_prefix(std::min(why.find("] ") + 2, why.size()));
    constexpr std::size_t kShown = 300;  // what was read last is quoted, however long
    fail<DataError>(
        "{}: not valid JSON: {}{}", place.text(), escape_controls(why.substr(0, kShown)),
        place.number == 1
            ? "; a record is a line, or the file is an array of records, or a table named .csv or .tsv"
            : "");
  }
}

}  // namespace stoa::tune
