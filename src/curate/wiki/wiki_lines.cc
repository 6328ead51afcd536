#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "curate/html/entities.h"
#include "curate/wiki/wikitext.h"

namespace stoa::curate {
namespace {

constexpr std::size_t kNotFound = std::string_view::npos;

std::string_view trim_blanks(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" \t\r");
  if (begin == line.npos) return {};
  return line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
}

// The line without marks of what was cut, and without what that left: two blanks, a blank before a full stop,
// brackets around nothing, marks behind an opening bracket.
std::string without_cuts(std::string_view line) {
  if (line.find(kCutMark) == line.npos) return std::string(trim_blanks(line));
  std::string out;
  bool after_cut = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == kCutMark) {
      after_cut = true;
      continue;
    }
    if (after_cut) {
      if (!out.empty() && out.back() == '(' && std::string_view(" ,;:").find(c) != kNotFound) continue;
      if (!out.empty() && out.back() == ' ' && std::string_view(" ,.;:)").find(c) != kNotFound)
        out.pop_back();
      if (c == ')' && !out.empty() && out.back() == '(') {
        out.pop_back();
        continue;  // still after a cut
      }
    }
    after_cut = false;
    out += c;
  }
  return std::string(trim_blanks(out));
}

struct WikiLine {
  enum class Kind : std::uint8_t { kText, kLiteral, kHeading, kBlank };
  Kind kind = Kind::kText;
  int level = 0;  // of a heading
  std::string text;
};

// Numbers the items of lists.
class ItemMarks {
 public:
  void end_lists() { numbers_.clear(); }
  // What an item of the marks `prefix` ("*", "#:") begins with.
  std::string mark(std::string_view prefix) {
    // An outer item ends inner lists.
    for (auto known = numbers_.begin(); known != numbers_.end();)
      known = known->first.size() > prefix.size() ? numbers_.erase(known) : std::next(known);
    if (prefix.back() == '*') return "- ";
    if (prefix.back() == '#') return fmt::format("{}. ", ++numbers_[std::string(prefix)]);
    return {};
  }

 private:
  std::map<std::string, int> numbers_;
};

// "== Title ==": its level, and the title.
int heading_level(std::string_view line, std::string_view& title) {
  constexpr std::size_t kDeepest = 6;
  if (line.size() < 3 || line.front() != '=' || line.back() != '=') return 0;
  const std::size_t before = line.find_first_not_of('='),
                    after = line.size() - 1 - std::min(line.find_last_not_of('='), line.size() - 1);
  if (before == line.npos) return 0;
  const std::size_t level = std::min({before, after, kDeepest});
  title = trim_blanks(line.substr(level, line.size() - 2 * level));
  return title.empty() ? 0 : static_cast<int>(level);
}

std::vector<WikiLine> read_lines(std::string_view text, bool open_table) {
  std::vector<WikiLine> lines;
  ItemMarks marks;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view raw = text.substr(at, end - at);
    at = end + 1;
    if (raw.starts_with(kLiteralMark)) {
      std::string literal(raw.substr(1));
      std::erase(literal, kLiteralMark);
      std::erase(literal, kCutMark);
      lines.push_back({WikiLine::Kind::kLiteral, 0, std::move(literal)});
      continue;
    }
    const bool had_text = !trim_blanks(raw).empty();
    std::string line = without_cuts(raw);
    std::erase(line, kLiteralMark);
    std::string_view left = line;
    if (left.empty()) {
      // A line of which all was cut is none.
      if (!had_text) {
        marks.end_lists();
        lines.push_back({WikiLine::Kind::kBlank, 0, {}});
      }
      continue;
    }
    if (left.starts_with("----")) continue;
    if (open_table && (left.starts_with('|') || left.starts_with('!') || left.starts_with("{|"))) continue;
    std::string_view title;
    if (const int level = heading_level(left, title); level > 0) {
      marks.end_lists();
      lines.push_back({WikiLine::Kind::kHeading, level, std::string(title)});
      continue;
    }
    const std::size_t prefix = std::min(left.find_first_not_of("*#:;"), left.size());
    std::string mark;
    if (prefix > 0 && trim_blanks(raw).substr(0, 1) == left.substr(0, 1)) {
      const std::string_view item = trim_blanks(left.substr(prefix));
      if (item.empty()) continue;
      mark = marks.mark(left.substr(0, prefix));
      left = item;
    } else {
      marks.end_lists();
    }
    lines.push_back({WikiLine::Kind::kText, 0, mark + std::string(left)});
  }
  return lines;
}

// Headings with no text before the next one of their level or a higher one become blank.
void drop_empty_headings(std::vector<WikiLine>& lines) {
  std::array<bool, 8> has_text{};  // by level: since the last heading of it or a higher one
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (line->kind == WikiLine::Kind::kBlank) continue;
    if (line->kind != WikiLine::Kind::kHeading) {
      has_text.fill(true);
      continue;
    }
    const auto level = static_cast<std::size_t>(line->level);
    if (!has_text[level]) line->kind = WikiLine::Kind::kBlank;
    std::fill(has_text.begin() + line->level, has_text.end(), false);
  }
}

}  // namespace

std::string wiki_lines_to_text(std::string_view text, bool open_table) {
  std::vector<WikiLine> lines = read_lines(text, open_table);
  drop_empty_headings(lines);
  std::string joined;
  bool blank = false;
  for (const WikiLine& line : lines) {
    if (line.kind == WikiLine::Kind::kBlank) {
      blank = true;
      continue;
    }
    if (!joined.empty()) joined += blank || line.kind == WikiLine::Kind::kHeading ? "\n\n" : "\n";
    joined += line.text;
    blank = false;
  }
  std::string unescaped, out;
  append_unescaped(joined, unescaped);
  constexpr std::string_view kNoBreak = "\xc2\xa0";  // a no-break space
  for (std::string_view rest = unescaped;;) {
    const std::size_t at = rest.find(kNoBreak);
    out += rest.substr(0, at);
    if (at == rest.npos) return out;
    out += ' ';
    rest.remove_prefix(at + kNoBreak.size());
  }
}

}  // namespace stoa::curate
