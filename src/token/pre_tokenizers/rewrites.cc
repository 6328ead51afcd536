#include "token/pre_tokenizers/rewrites.h"

#include "token/byte_alphabet.h"

namespace stoa::token {
namespace {

// Replaces the pieces: `write(piece, text, spans)` appends what a piece becomes. Added tokens keep their
// text.
template <class Write>
void rewrite_pieces(Pieces& pieces, PieceScratch& scratch, Write&& write) {
  scratch.text.clear();
  scratch.spans.clear();
  for (Piece& piece : pieces.list) {
    const auto begin = static_cast<std::uint32_t>(scratch.text.size());
    if (piece.token >= 0) {
      scratch.text.append(pieces.of(piece));
      scratch.spans.insert(scratch.spans.end(), pieces.spans.begin() + piece.begin,
                           pieces.spans.begin() + piece.end);
    } else {
      write(piece, scratch.text, scratch.spans);
    }
    piece.begin = begin;
    piece.end = static_cast<std::uint32_t>(scratch.text.size());
  }
  pieces.text.swap(scratch.text);
  pieces.spans.swap(scratch.spans);
}

}  // namespace

PrependScheme read_prepend_scheme(json::object o, std::string_view where) {
  const std::string given = text_member(o, "prepend_scheme", "always", where);
  const bool never = member(o, "add_prefix_space") && !flag(o, "add_prefix_space", true, where);
  require<DataError>(!never || given == "never" || !member(o, "prepend_scheme"),
                     "{} has add_prefix_space false, but prepend_scheme '{}'", where, given);
  if (never || given == "never") return PrependScheme::kNever;
  require<DataError>(given == "always" || given == "first",
                     "{}.prepend_scheme is '{}', expected always, first or never", where, given);
  return given == "first" ? PrependScheme::kFirst : PrependScheme::kAlways;
}

Metaspace::Metaspace(char32_t replacement, PrependScheme scheme, bool split)
    : scheme_(scheme), split_(split) {
  append_utf8(replacement, replacement_);
}

void Metaspace::apply(Pieces& pieces, PieceScratch& scratch) const {
  rewrite_pieces(pieces, scratch, [&](const Piece& piece, std::string& text, std::vector<TextSpan>& spans) {
    const std::string_view from = pieces.of(piece);
    const bool marked = from.starts_with(' ') || from.starts_with(replacement_);
    const bool prepend = !marked && (scheme_ == PrependScheme::kAlways ||
                                     (scheme_ == PrependScheme::kFirst && piece.origin == 0));
    if (prepend) {
      text.append(replacement_);
      spans.insert(spans.end(), replacement_.size(), pieces.spans[piece.begin]);
    }
    for (std::size_t i = 0; i < from.size(); ++i) {
      const TextSpan span = pieces.spans[piece.begin + i];
      if (from[i] == ' ')
        text.append(replacement_);
      else
        text.push_back(from[i]);
      spans.insert(spans.end(), from[i] == ' ' ? replacement_.size() : 1, span);
    }
  });
  if (!split_) return;
  split_pieces(
      pieces, scratch, SplitBehavior::kMergedWithNext, false,
      [&](std::string_view text, std::vector<RegexMatch>& out) { find_literal(text, replacement_, out); });
}

void SplitLikeGpt2::apply(Pieces& pieces, PieceScratch& scratch) const {
  split_pieces(pieces, scratch, SplitBehavior::kIsolated, false,
               [&](std::string_view text, std::vector<RegexMatch>& out) {
                 for (std::size_t at = 0; at < text.size();) {
                   const std::size_t n = words_.next(text.data() + at, text.data() + text.size());
                   out.push_back({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at + n)});
                   at += n;
                 }
               });
}

ByteLevel::ByteLevel(bool add_prefix_space, bool use_regex) : add_prefix_space_(add_prefix_space) {
  if (use_regex) words_.emplace();
}

void ByteLevel::apply(Pieces& pieces, PieceScratch& scratch) const {
  if (add_prefix_space_) {
    rewrite_pieces(pieces, scratch, [&](const Piece& piece, std::string& text, std::vector<TextSpan>& spans) {
      const std::string_view from = pieces.of(piece);
      if (!from.starts_with(' ')) {
        text.push_back(' ');
        spans.push_back(pieces.spans[piece.begin]);
      }
      text.append(from);
      spans.insert(spans.end(), pieces.spans.begin() + piece.begin, pieces.spans.begin() + piece.end);
    });
  }
  if (words_) words_->apply(pieces, scratch);
  const ByteAlphabet alphabet;
  rewrite_pieces(pieces, scratch, [&](const Piece& piece, std::string& text, std::vector<TextSpan>& spans) {
    for (std::uint32_t i = piece.begin; i < piece.end; ++i) {
      const std::size_t before = text.size();
      append_utf8(alphabet.symbol(static_cast<std::uint8_t>(pieces.text[i])), text);
      spans.insert(spans.end(), text.size() - before, pieces.spans[i]);
    }
  });
}

}  // namespace stoa::token
