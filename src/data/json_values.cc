#include "data/json_values.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "data/sampled_source.h"

namespace stoa::data {
namespace {

constexpr std::size_t kPieceBytes = 1 << 16;
constexpr std::string_view kBlanks = " \t\r\n\xEF\xBB\xBF";  // and a byte order mark, in front

// Whether JSON begins with `[` and an object or a text, or with a line that is nothing but `{`.
bool spans_lines(std::string_view head) {
  const std::size_t first = std::min(head.find_first_not_of(kBlanks), head.size());
  head.remove_prefix(first);
  if (head.empty() || (head.front() != '[' && head.front() != '{')) return false;
  const bool is_list = head.front() == '[';
  const std::string_view rest = head.substr(1);
  const std::size_t next = rest.find_first_not_of(kBlanks);
  if (next == rest.npos) return false;
  return is_list ? rest[next] == '{' || rest[next] == '"' : rest.substr(0, next).find('\n') != rest.npos;
}

// The objects and texts of an array, or objects over several lines, a line each.
class ValueLines final : public ByteSource {
 public:
  explicit ValueLines(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}

  std::size_t read(char* to, std::size_t bytes) override {
    while (at_ == lines_.size()) {
      lines_.clear();
      at_ = 0;
      std::string piece(kPieceBytes, '\0');
      piece.resize(source_->read(piece.data(), piece.size()));
      if (piece.empty()) return 0;
      split(piece);
    }
    const std::size_t count = std::min(bytes, lines_.size() - at_);
    std::memcpy(to, lines_.data() + at_, count);
    at_ += count;
    return count;
  }
  std::uint64_t position() const override { return source_->position(); }

 private:
  void split(std::string_view text) {
    for (const char c : text) {
      if (in_string_ && c == '\n') {  // no text of JSON goes beyond its line: a mark is missing, of this one
        in_string_ = is_escaped_ = false;
        lines_ += ' ';
      } else if (in_string_) {
        lines_ += c;
        in_string_ = is_escaped_ || c != '"';
        is_escaped_ = !is_escaped_ && c == '\\';
      } else if (depth_ > 0) {
        in_string_ = c == '"';
        depth_ += c == '{' ? 1 : c == '}' ? -1 : 0;
        lines_ += c == '\n' || c == '\r' ? ' ' : c;
        if (depth_ == 0) end_line();
      } else if (c == '{') {
        depth_ = 1;
        in_line_ = true;
        lines_ += c;
      } else if (c == ',' || c == ']') {
        if (in_line_) end_line();  // of another value
      } else if (c != '[' && kBlanks.find(c) == kBlanks.npos) {
        in_line_ = true;
        in_string_ = c == '"';
        lines_ += c;
      }
    }
  }
  void end_line() {
    lines_ += '\n';
    in_line_ = false;
  }

  std::unique_ptr<ByteSource> source_;
  std::string lines_;
  std::size_t at_ = 0;  // handed out, of lines_
  std::int64_t depth_ = 0;
  bool in_string_ = false, is_escaped_ = false, in_line_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> one_value_per_line(std::unique_ptr<ByteSource> source) {
  auto sampled = std::make_unique<SampledSource>(std::move(source), kPieceBytes);
  if (!spans_lines(sampled->sample())) return sampled;
  return std::make_unique<ValueLines>(std::move(sampled));
}

}  // namespace stoa::data
