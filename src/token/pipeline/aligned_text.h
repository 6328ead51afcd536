// A text being normalized that records, for every byte, which part of the original it came from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "token/pipeline/regex.h"
#include "token/unicode.h"

namespace stoa::token {

// Bytes begin..end of the original text.
struct TextSpan {
  std::uint32_t begin, end;
  bool operator==(const TextSpan&) const = default;
};

// One character of a new text: `change` 0 replaces the next character of the old text, 1 is inserted, -n
// replaces the next and removes the n after it.
struct CharacterChange {
  char32_t character;
  std::int32_t change;
};

// The text is UTF-8 throughout. Alignments follow NormalizedString of Hugging Face tokenizers, so that
// offsets agree; the spans of an inserted character are those of the one before it.
class AlignedText {
 public:
  // `begin`: the position of `text` in the original.
  AlignedText(std::string_view text, std::uint32_t begin);

  std::string_view text() const { return text_; }
  std::span<const TextSpan> spans() const { return spans_; }
  std::uint32_t begin() const { return begin_; }

  // Replaces the text as `changes` describe, after its first `dropped` characters were removed.
  void change(std::span<const CharacterChange> changes, std::size_t dropped = 0);
  void prepend(std::string_view inserted);  // nothing before an empty text
  void strip(bool left, bool right, const UnicodeClasses& classes);
  void replace(std::span<const RegexMatch> matches, std::string_view content);
  // Replaces every byte by its character in the byte alphabet.
  void to_byte_alphabet();
  // Calls keep(character) for each character; those for which it returns false are removed.
  template <class F>
  void filter(F&& keep) {
    changes_.clear();
    std::size_t dropped = 0;
    std::int32_t removed = 0;
    bool any = false;
    for (const char *p = text_.data(), *end = p + text_.size(); p < end;) {
      const CodePoint c = read_utf8(p, end);
      p += c.length;
      if (!keep(c.value)) {
        ++removed;
        any = true;
        continue;
      }
      if (changes_.empty())
        dropped = static_cast<std::size_t>(removed);
      else
        changes_.back().change = -removed;
      changes_.push_back({c.value, 0});
      removed = 0;
    }
    if (!any) return;
    if (!changes_.empty()) changes_.back().change = -removed;
    change(changes_, dropped);
  }
  // Calls each(character, out) for each character; it appends the replacement to `out`.
  template <class F>
  void rewrite(F&& each) {
    changes_.clear();
    for (const char *p = text_.data(), *end = p + text_.size(); p < end;) {
      const CodePoint c = read_utf8(p, end);
      p += c.length;
      each(c.value, changes_);
    }
    change(changes_);
  }

 private:
  std::string text_, other_text_;
  std::vector<TextSpan> spans_, other_spans_;
  std::vector<CharacterChange> changes_;
  std::uint32_t begin_;
};

// Appends one span per byte of `text`, which is at `begin` in the original.
void append_identity(std::string_view text, std::uint32_t begin, std::vector<TextSpan>& out);

}  // namespace stoa::token
