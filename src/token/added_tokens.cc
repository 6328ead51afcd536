#include "token/added_tokens.h"

#include <algorithm>
#include <cstring>

namespace stoa::token {

void AddedTokenFinder::add(const AddedToken& token, std::string_view pattern) {
  if (pattern.empty()) return;
  std::size_t node = 0;
  for (const char c : pattern) {
    const auto byte = static_cast<std::uint8_t>(c);
    auto& children = nodes_[node].children;
    auto it = std::lower_bound(children.begin(), children.end(), byte,
                               [](const auto& child, std::uint8_t b) { return child.first < b; });
    if (it == children.end() || it->first != byte) {
      it = children.insert(it, {byte, static_cast<std::int32_t>(nodes_.size())});
      node = static_cast<std::size_t>(it->second);
      nodes_.emplace_back();
    } else {
      node = static_cast<std::size_t>(it->second);
    }
  }
  nodes_[node].token = static_cast<std::int32_t>(tokens_.size());
  tokens_.push_back(token);
  const auto first = static_cast<std::uint8_t>(pattern[0]);
  if (!first_[first]) ++distinct_first_;
  first_[first] = true;
  only_first_ = pattern[0];
}

void AddedTokenFinder::cut(std::string_view text, bool plain, const UnicodeClasses& classes,
                           std::vector<Piece>& out) const {
  const char *begin = text.data(), *end = begin + text.size(), *done = begin, *p = begin;
  const char* blanks_end = begin;  // from the end of a match before up to here is white space
  while (p < end) {
    if (distinct_first_ == 1) {
      p = static_cast<const char*>(std::memchr(p, only_first_, static_cast<std::size_t>(end - p)));
      if (p == nullptr) break;
    } else if (!first_[static_cast<std::uint8_t>(*p)]) {
      ++p;
      continue;
    }
    std::int32_t found = -1;
    const char* stop = p;
    std::size_t node = 0;
    for (const char* q = p; q < end; ++q) {
      const auto byte = static_cast<std::uint8_t>(*q);
      const auto& children = nodes_[node].children;
      const auto it = std::lower_bound(children.begin(), children.end(), byte,
                                       [](const auto& child, std::uint8_t b) { return child.first < b; });
      if (it == children.end() || it->first != byte) break;
      node = static_cast<std::size_t>(it->second);
      if (nodes_[node].token >= 0) found = nodes_[node].token, stop = q + 1;
    }
    if (found < 0) {
      ++p;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(found)];
    const char* start = p;
    p = stop;
    if (plain && token.special) continue;
    if (token.single_word && ((start > begin && classes.is_word(read_utf8_before(begin, start))) ||
                              (stop < end && classes.is_word(read_utf8(stop, end))))) {
      continue;
    }
    if (token.lstrip) {
      while (start > done) {
        const CodePoint c = read_utf8_before(begin, start);
        if (!classes.is_space(c)) break;
        start -= c.length;
      }
      start = std::max(start, done);
    }
    if (token.rstrip) {
      stop = std::max(stop, blanks_end);
      while (stop < end) {
        const CodePoint c = read_utf8(stop, end);
        if (!classes.is_space(c)) break;
        stop += c.length;
      }
      blanks_end = stop;
    }
    // Another token has swallowed the white space that this one is.
    if (start >= stop) continue;
    if (done < start) out.push_back({{done, static_cast<std::size_t>(start - done)}, -1});
    out.push_back({{start, static_cast<std::size_t>(stop - start)}, token.id});
    done = stop;
  }
  if (done < end) out.push_back({{done, static_cast<std::size_t>(end - done)}, -1});
}

}  // namespace stoa::token
