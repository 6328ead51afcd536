#include "token/pipeline/aligned_text.h"

#include "token/byte_alphabet.h"

namespace stoa::token {

void append_identity(std::string_view text, std::uint32_t begin, std::vector<TextSpan>& out) {
  out.reserve(out.size() + text.size());
  for (const char *first = text.data(), *p = first, *end = p + text.size(); p < end;) {
    const CodePoint c = read_utf8(p, end);
    const auto at = begin + static_cast<std::uint32_t>(p - first);
    out.insert(out.end(), c.length, TextSpan{at, at + c.length});
    p += c.length;
  }
}

AlignedText::AlignedText(std::string_view text, std::uint32_t begin) : text_(text), begin_(begin) {
  append_identity(text, begin, spans_);
}

void AlignedText::change(std::span<const CharacterChange> changes, std::size_t dropped) {
  other_text_.clear();
  other_spans_.clear();
  std::size_t at = 0;
  const auto skip = [&] {
    if (at < text_.size()) at += read_utf8(text_.data() + at, text_.data() + text_.size()).length;
  };
  while (dropped-- > 0) skip();
  for (const CharacterChange& c : changes) {
    TextSpan span{begin_, begin_};
    if (c.change > 0) {
      if (at > 0) span = spans_[at - 1];
    } else if (!spans_.empty()) {
      span = at < spans_.size() ? spans_[at] : spans_.back();
    }
    const std::size_t before = other_text_.size();
    append_utf8(c.character, other_text_);
    other_spans_.insert(other_spans_.end(), other_text_.size() - before, span);
    for (std::int32_t n = c.change; n <= 0; ++n) skip();
  }
  text_.swap(other_text_);
  spans_.swap(other_spans_);
}

void AlignedText::prepend(std::string_view inserted) {
  if (text_.empty() || inserted.empty()) return;
  // What is inserted stands for the first character, and the first character continues behind it.
  spans_.insert(spans_.begin(), inserted.size(), spans_.front());
  text_.insert(0, inserted);
}

void AlignedText::strip(bool left, bool right, const UnicodeClasses& classes) {
  const char *first = text_.data(), *last = first + text_.size();
  const char *begin = first, *end = last;
  while (left && begin < end) {
    const CodePoint c = read_utf8(begin, end);
    if (!classes.is_space(c)) break;
    begin += c.length;
  }
  while (right && begin < end) {
    const CodePoint c = read_utf8_before(begin, end);
    if (!classes.is_space(c)) break;
    end -= c.length;
  }
  spans_.erase(spans_.begin() + (end - first), spans_.end());
  spans_.erase(spans_.begin(), spans_.begin() + (begin - first));
  text_.erase(static_cast<std::size_t>(end - first));
  text_.erase(0, static_cast<std::size_t>(begin - first));
}

void AlignedText::replace(std::span<const RegexMatch> matches, std::string_view content) {
  if (matches.empty()) return;
  other_text_.clear();
  other_spans_.clear();
  std::size_t done = 0;
  const auto keep = [&](std::size_t until) {
    other_text_.append(text_, done, until - done);
    other_spans_.insert(other_spans_.end(), spans_.begin() + static_cast<std::ptrdiff_t>(done),
                        spans_.begin() + static_cast<std::ptrdiff_t>(until));
  };
  for (const RegexMatch& m : matches) {
    keep(m.begin);
    other_text_.append(content);
    other_spans_.insert(other_spans_.end(), content.size(),
                        m.end > 0 ? spans_[m.end - 1] : TextSpan{begin_, begin_});
    done = m.end;
  }
  keep(text_.size());
  text_.swap(other_text_);
  spans_.swap(other_spans_);
}

void AlignedText::to_byte_alphabet() {
  const ByteAlphabet alphabet;
  other_text_.clear();
  other_spans_.clear();
  for (std::size_t i = 0; i < text_.size(); ++i) {
    const std::size_t before = other_text_.size();
    append_utf8(alphabet.symbol(static_cast<std::uint8_t>(text_[i])), other_text_);
    other_spans_.insert(other_spans_.end(), other_text_.size() - before, spans_[i]);
  }
  text_.swap(other_text_);
  spans_.swap(other_spans_);
}

}  // namespace stoa::token
