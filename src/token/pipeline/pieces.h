// The pieces into which a pre-tokenizer cuts a text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "token/bpe.h"
#include "token/pipeline/aligned_text.h"
#include "token/pipeline/regex.h"

namespace stoa::token {

struct Piece {
  std::uint32_t begin, end;  // bytes of Pieces::text
  std::uint32_t origin;      // position of its beginning in the original text
  TokenId token = -1;        // an added token; -1: text still to be encoded
};

// The pieces are consecutive parts of one text. `spans` says which part of the original each byte came from;
// empty if offsets are not needed.
struct Pieces {
  std::string text;
  std::vector<TextSpan> spans;
  std::vector<Piece> list;

  std::string_view of(const Piece& piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }
  void clear() { text.clear(), spans.clear(), list.clear(); }
};

// Working memory of pre-tokenizers; one per thread.
struct PieceScratch {
  RegexScratch regex;
  std::vector<RegexMatch> matches;
  std::vector<Piece> list;
  std::string text;
  std::vector<TextSpan> spans;
};

// What happens to the text that a pattern matches.
enum class SplitBehavior : std::uint8_t {
  kRemoved,
  kIsolated,  // a piece of its own
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous,  // adjacent matches form one piece
};

// Replaces pieces by parts of them: [begin, end) are positions within a piece, in order.
class PieceCutter {
 public:
  PieceCutter(Pieces& pieces, PieceScratch& scratch) : pieces_(pieces), out_(scratch.list) { out_.clear(); }
  ~PieceCutter() { pieces_.list.swap(out_); }
  PieceCutter(const PieceCutter&) = delete;
  PieceCutter& operator=(const PieceCutter&) = delete;

  // Calls cut(text of the piece, add(begin, end)) for every piece that is text; added tokens are kept.
  template <class F>
  void each(F&& cut) {
    for (const Piece& piece : pieces_.list) {
      if (piece.token >= 0) {
        out_.push_back(piece);
        continue;
      }
      cut(pieces_.of(piece), [&](std::uint32_t begin, std::uint32_t end) { add(piece, begin, end); });
    }
  }

 private:
  void add(const Piece& piece, std::uint32_t begin, std::uint32_t end) {
    if (begin >= end) return;
    const std::uint32_t at = piece.begin + begin;
    out_.push_back({at, piece.begin + end, pieces_.spans.empty() ? at : pieces_.spans[at].begin, -1});
  }

  Pieces& pieces_;
  std::vector<Piece>& out_;
};

// Cuts every piece at the matches: `find(text, matches)` appends the matches in a text, in order. `invert`:
// the text between matches counts as matched.
template <class Find>
void split_pieces(Pieces& pieces, PieceScratch& scratch, SplitBehavior behavior, bool invert, Find&& find);

// Calls `add` for the pieces [begin, end) of a text of `size` bytes that result from matches and `behavior`.
template <class Add>
void arrange(const std::vector<RegexMatch>& matches, std::uint32_t size, SplitBehavior behavior, bool invert,
             Add&& add) {
  // Visits matches and the text between them in order; kMergedWithNext has a loop of its own.
  struct Part {
    std::uint32_t begin, end;
    bool matched;
  };
  Part open{0, 0, false};
  bool has_open = false, previous = false;
  const auto visit = [&](Part part) {
    bool join = false;
    if (behavior == SplitBehavior::kContiguous) join = part.matched == previous;
    if (behavior == SplitBehavior::kMergedWithPrevious) join = part.matched && !previous;
    previous = part.matched;
    if (behavior == SplitBehavior::kRemoved && part.matched) return;
    if (join && has_open) {
      open.end = part.end;
      return;
    }
    if (has_open) add(open.begin, open.end);
    open = part;
    has_open = true;
  };
  std::uint32_t done = 0;
  if (behavior != SplitBehavior::kMergedWithNext) {
    for (const RegexMatch& m : matches) {
      if (done != m.begin) visit({done, m.begin, invert});
      visit({m.begin, m.end, !invert});
      done = m.end;
    }
    if (done != size) visit({done, size, invert});
    if (has_open) add(open.begin, open.end);
    return;
  }
  // A match is joined with the text after it, unless that is a match.
  for (std::size_t i = 0; i <= matches.size(); ++i) {
    const auto give = [&](Part part) {
      if (has_open && !(open.matched && !part.matched)) add(open.begin, open.end);
      if (has_open && open.matched && !part.matched) part.begin = open.begin;
      open = part;
      has_open = true;
    };
    const std::uint32_t begin = i < matches.size() ? matches[i].begin : size;
    if (done != begin) give({done, begin, invert});
    if (i < matches.size()) give({begin, matches[i].end, !invert}), done = matches[i].end;
  }
  if (has_open) add(open.begin, open.end);
}

template <class Find>
void split_pieces(Pieces& pieces, PieceScratch& scratch, SplitBehavior behavior, bool invert, Find&& find) {
  PieceCutter(pieces, scratch).each([&](std::string_view text, auto&& add) {
    scratch.matches.clear();
    find(text, scratch.matches);
    arrange(scratch.matches, static_cast<std::uint32_t>(text.size()), behavior, invert, add);
  });
}

// The same at every character for which `is` holds.
template <class Is>
void split_at_characters(Pieces& pieces, PieceScratch& scratch, SplitBehavior behavior, bool invert,
                         Is&& is) {
  split_pieces(pieces, scratch, behavior, invert, [&](std::string_view text, std::vector<RegexMatch>& out) {
    for (const char *first = text.data(), *p = first, *end = p + text.size(); p < end;) {
      const CodePoint c = read_utf8(p, end);
      const auto at = static_cast<std::uint32_t>(p - first);
      if (is(c.value)) out.push_back({at, at + c.length});
      p += c.length;
    }
  });
}

}  // namespace stoa::token
