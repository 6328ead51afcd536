#include "foreign/megatron/shell_statements.h"

#include <algorithm>

#include "base/error.h"

namespace stoa::foreign {
namespace {

constexpr int kDeepestPart = 100;

class ShellLines {
 public:
  ShellLines(std::string_view text, const std::string& name) : text_(text), span_(text_, name) {}

  std::vector<ShellStatement> read() {
    while (at_ < text_.size()) step();
    end_statement();
    return std::move(out_);
  }

 private:
  void step() {
    const char c = text_[at_];
    if (c == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') {
      now_ += ' ';
      at_ += 2;
      ++line_;
    } else if (c == '#' && (now_.empty() || is_blank(now_.back()))) {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == '\n' || c == ';') {
      const bool line_ends = c == '\n';
      ++at_;
      end_statement();
      if (line_ends) {
        ++line_;
        skip_document();
      }
    } else if (in_test() && (c == '&' || c == '|')) {
      now_ += c;
      ++at_;
    } else if (text_.substr(at_, 2) == "&&" || text_.substr(at_, 2) == "||") {
      at_ += 2;
      end_statement();
      (c == '&' ? and_ : or_) = true;
    } else if (text_.substr(at_, 2) == "<<" && text_.substr(at_, 3) != "<<<") {
      begin_document();
    } else if (c == '(' && !now_.empty() && now_.back() == '=') {
      copy_array();
    } else {
      const std::size_t end = c == '(' ? at_ + 1 : span_.after(at_);
      const std::string_view part = text_.substr(at_, end - at_);
      line_ += static_cast<int>(std::count(part.begin(), part.end(), '\n'));
      now_ += part;
      at_ = end;
    }
  }
  // The elements of an array, without its comments.
  void copy_array() {
    now_ += '(';
    ++at_;
    while (at_ < text_.size() && text_[at_] != ')') {
      if (text_[at_] == '#' && is_blank(now_.back())) {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
        continue;
      }
      if (text_[at_] == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') ++at_;
      const std::size_t end = span_.after(at_);
      const std::string_view part = text_.substr(at_, end - at_);
      line_ += static_cast<int>(std::count(part.begin(), part.end(), '\n'));
      now_ += part;
      at_ = end;
    }
    if (at_ == text_.size()) span_.matching(at_ - 1);
    now_ += ')';
    ++at_;
  }
  bool in_test() const {
    return now_.find("[[") != std::string::npos && now_.find("]]") == std::string::npos;
  }
  void begin_document() {
    at_ += 2;
    while (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == ' ')) ++at_;
    std::string word;
    while (at_ < text_.size() && !is_blank(text_[at_]) && text_[at_] != ';' && text_[at_] != '>') {
      if (text_[at_] != '\'' && text_[at_] != '"' && text_[at_] != '\\') word += text_[at_];
      ++at_;
    }
    document_ = word;
  }
  void skip_document() {
    while (!document_.empty() && at_ < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string_view line = text_.substr(at_, end - at_);
      while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
      while (!line.empty() && is_blank(line.back())) line.remove_suffix(1);
      at_ = std::min(end + 1, text_.size());
      ++line_;
      if (line == document_) document_.clear();
    }
  }
  void end_statement() {
    const auto first = now_.find_first_not_of(" \t\r");
    if (first != std::string::npos) {
      out_.push_back({now_.substr(first, now_.find_last_not_of(" \t\r") - first + 1), line_, and_, or_});
      and_ = or_ = false;
    }
    now_.clear();
  }

  std::string_view text_;
  ShellSpan span_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool and_ = false, or_ = false;
  std::string now_, document_;
  std::vector<ShellStatement> out_;
};

}  // namespace

bool is_name(std::string_view text) {
  return !text.empty() && !(text[0] >= '0' && text[0] <= '9') &&
         std::all_of(text.begin(), text.end(), is_name_char);
}

std::optional<std::pair<std::string, std::string>> assignment_of(std::string_view word) {
  const auto equals = word.find('=');
  if (equals == std::string_view::npos || !is_name(word.substr(0, equals))) return {};
  return std::pair(std::string(word.substr(0, equals)), std::string(word.substr(equals + 1)));
}

std::string_view after_blanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return text;
}

std::string shortened(std::string_view text) {
  return text.size() > 60 ? std::string(text.substr(0, 57)) + "..." : std::string(text);
}

std::size_t ShellSpan::after(std::size_t at, int depth) const {
  const char c = text_[at];
  if (c == '\\') return std::min(at + 2, text_.size());
  if (c == '\'') return closing(text_.find('\'', at + 1), at);
  if (c == '`') return closing(text_.find('`', at + 1), at);
  if (c == '"') {
    for (std::size_t i = at + 1; i < text_.size();) {
      if (text_[i] == '"') return i + 1;
      i = text_[i] == '\'' ? i + 1 : after(i, depth + 1);
    }
    return closing(std::string_view::npos, at);
  }
  if (c == '$' && at + 1 < text_.size() && (text_[at + 1] == '(' || text_[at + 1] == '{'))
    return matching(at + 1, depth + 1);
  return at + 1;
}

std::size_t ShellSpan::word_end(std::size_t at) const {
  while (at < text_.size() && !is_blank(text_[at])) at = after(at);
  return at;
}

std::size_t ShellSpan::matching(std::size_t at, int depth) const {
  if (depth >= kDeepestPart)
    fail<UsageError>("{}:{}: quotes and parentheses are nested more than {} deep", name_, line_of(at),
                     kDeepestPart);
  const char open = text_[at], close = open == '(' ? ')' : '}';
  int open_ones = 0;
  for (std::size_t i = at; i < text_.size();) {
    if (text_[i] == open) ++open_ones;
    if (text_[i] == close && --open_ones == 0) return i + 1;
    i = (text_[i] == open || text_[i] == '#') ? i + 1 : after(i, depth + 1);
  }
  return closing(std::string_view::npos, at);
}

std::size_t ShellSpan::closing(std::size_t found, std::size_t at) const {
  if (found == std::string_view::npos)
    fail<UsageError>("{}:{}: '{}' is not closed", name_, line_of(at), text_[at]);
  return found + 1;
}

std::ptrdiff_t ShellSpan::line_of(std::size_t at) const {
  return 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at), '\n');
}

std::vector<ShellStatement> shell_statements(std::string_view text, const std::string& name) {
  return ShellLines(text, name).read();
}

}  // namespace stoa::foreign
