#include "curate/text/english_words.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <set>
#include <string>
#include <unordered_map>

#include "base/utf8.h"
#include "curate/text/character.h"
#include "curate/text/english_rules.h"

namespace stoa::curate {
namespace {

constexpr std::size_t kCachedBytes = 64;      // of the longest piece that is remembered
constexpr std::size_t kCacheSlots = 1 << 16;  // half of them are used at most

using Parts = std::vector<std::string_view>;

std::uint64_t load(const char* p, std::size_t bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, p, bytes);
  return value;
}

std::uint64_t piece_hash(std::string_view piece) {
  constexpr std::uint64_t kFactor = 0x9fb21c651e98df25;
  const char* p = piece.data();
  std::size_t left = piece.size();
  std::uint64_t h = left * kFactor;
  for (; left >= 8; left -= 8, p += 8) {
    h = (h ^ load(p, 8)) * kFactor;
    h ^= h >> 29;
  }
  if (left >= 4)
    h ^= load(p, 4) | load(p + left - 4, 4) << 32;
  else if (left > 0)
    h ^= static_cast<std::uint64_t>(static_cast<unsigned char>(p[0])) |
         static_cast<std::uint64_t>(static_cast<unsigned char>(p[left / 2])) << 8 |
         static_cast<std::uint64_t>(static_cast<unsigned char>(p[left - 1])) << 16;
  h *= kFactor;
  return h ^ h >> 32;
}

// A number for every byte, so that sums of similar words differ in all bits.
constexpr std::array<std::uint64_t, 256> byte_numbers() {
  std::array<std::uint64_t, 256> numbers{};
  std::uint64_t state = 0x243f6a8885a308d3;
  for (auto& n : numbers) {  // splitmix64
    std::uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    n = z ^ z >> 31;
  }
  return numbers;
}
constexpr auto kByteNumbers = byte_numbers();

std::size_t white_space_at(const char* p, const char* end) {
  const auto c = static_cast<unsigned char>(*p);
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31);
  if (c != 0xc2 && (c < 0xe1 || c > 0xe3)) return 0;
  return leading_white_space({p, static_cast<std::size_t>(std::min<std::ptrdiff_t>(end - p, 4))});
}

}  // namespace

struct EnglishWords::Impl {
  struct Node {  // of the tree of token sequences that make an exception
    std::vector<std::pair<std::uint16_t, std::uint32_t>> children;
    bool ends = false;
    std::uint32_t child(std::uint16_t token) const {
      for (const auto& [t, node] : children)
        if (t == token) return node;
      return 0;
    }
  };
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t key = 0, first = 0;
    std::uint16_t key_bytes = 0, count = 0;  // key_bytes 0: free
  };
  struct Span {
    std::size_t begin, end;
  };

  std::unordered_map<std::string_view, Parts> exceptions;
  std::unordered_map<std::string_view, std::uint16_t> pattern_tokens;
  std::deque<std::string> texts;      // that these maps point to
  std::vector<Node> nodes;            // 0: the root
  std::vector<std::uint32_t> starts;  // node after the first token, by pattern number; 0: none

  std::vector<Slot> slots = std::vector<Slot>(kCacheSlots);
  std::vector<char> keys;
  std::vector<Word> pieces;  // of all slots; `begin` is an offset in the key
  std::size_t used = 0;

  std::vector<Word> words, rewritten;
  std::vector<Span> spans;
  bool ends_with_gap = false;
  // Scratch of cut().
  Parts prefixes, suffixes, parts;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> infixes;

  Impl() {
    for (const std::string_view entry : english_exceptions()) add_exception(entry);
    nodes.emplace_back();
    starts.resize(1);
    for (const auto& [word, own] : exceptions) {
      std::vector<std::pair<std::uint32_t, std::uint32_t>> found;
      english_infixes(word, found);
      if (english_prefix(word) == 0 && english_suffix(word) == 0 && found.empty()) continue;
      cut(word, false);
      if (parts.size() == 1 && own.size() == 1) continue;  // it stands for itself
      std::uint32_t node = 0;
      for (const std::string_view part : parts) node = grow(node, pattern_number(part));
      nodes[node].ends = true;
    }
    for (const auto& [token, node] : nodes[0].children) starts[token] = node;
  }

  void add_exception(std::string_view entry) {
    Parts parts_of;
    std::string& text = texts.emplace_back();
    std::vector<std::size_t> sizes;
    for (;;) {
      const std::size_t tab = entry.find('\t');
      const std::string_view part = entry.substr(0, tab);
      text += part;
      sizes.push_back(part.size());
      if (tab == entry.npos) break;
      entry.remove_prefix(tab + 1);
    }
    std::size_t at = 0;
    for (const std::size_t size : sizes) {
      parts_of.push_back(std::string_view(text).substr(at, size));
      at += size;
    }
    exceptions.emplace(text, std::move(parts_of));
  }
  std::uint16_t pattern_number(std::string_view token) {
    if (const auto found = pattern_tokens.find(token); found != pattern_tokens.end()) return found->second;
    const auto number = static_cast<std::uint16_t>(pattern_tokens.size() + 1);
    pattern_tokens.emplace(texts.emplace_back(token), number);
    starts.push_back(0);
    return number;
  }
  std::uint32_t grow(std::uint32_t node, std::uint16_t token) {
    if (const std::uint32_t known = nodes[node].child(token)) return known;
    const auto made = static_cast<std::uint32_t>(nodes.size());
    nodes[node].children.emplace_back(token, made);
    nodes.emplace_back();
    return made;
  }

  // The tokens of a piece without white space, to `parts`.
  void cut(std::string_view piece, bool with_exceptions) {
    const auto is_exception = [&](std::string_view s) { return with_exceptions && exceptions.contains(s); };
    prefixes.clear();
    suffixes.clear();
    parts.clear();
    std::string_view rest = piece;
    for (std::size_t last = 0; !rest.empty() && rest.size() != last;) {
      if (is_exception(rest)) break;
      last = rest.size();
      const std::size_t prefix = english_prefix(rest);
      const std::string_view after = rest.substr(prefix);
      if (prefix > 0 && !after.empty() && is_exception(after)) {
        prefixes.push_back(rest.substr(0, prefix));
        rest = after;
        break;
      }
      const std::size_t suffix = english_suffix(after);
      const std::string_view before = rest.substr(0, rest.size() - suffix);
      if (suffix > 0 && !before.empty() && is_exception(before)) {
        suffixes.push_back(rest.substr(before.size()));
        rest = before;
        break;
      }
      if (prefix > 0) prefixes.push_back(rest.substr(0, prefix));
      if (suffix > 0) suffixes.push_back(rest.substr(before.size()));
      rest = rest.substr(prefix, rest.size() - prefix - suffix);
    }
    parts.insert(parts.end(), prefixes.begin(), prefixes.end());
    if (!rest.empty()) {
      if (is_exception(rest)) {
        std::size_t at = 0;
        for (const std::string_view part : exceptions.find(rest)->second) {
          parts.push_back(rest.substr(at, part.size()));
          at += part.size();
        }
      } else if (is_address(rest)) {
        parts.push_back(rest);
      } else {
        cut_inside(rest);
      }
    }
    parts.insert(parts.end(), suffixes.rbegin(), suffixes.rend());
  }

  void cut_inside(std::string_view rest) {
    english_infixes(rest, infixes);
    std::size_t start = 0;
    for (const auto& [begin, end] : infixes) {
      if (begin == 0) continue;
      if (begin != start) parts.push_back(rest.substr(start, begin - start));
      parts.push_back(rest.substr(begin, end - begin));
      start = end;
    }
    if (start < rest.size()) parts.push_back(rest.substr(start));
  }

  Word describe(std::string_view token) const {
    const Characters& table = characters();
    Word word;
    word.begin = token.data();
    word.bytes = static_cast<std::uint32_t>(token.size());
    std::uint32_t all = ~0u, any = 0;
    bool not_symbol = false;
    for (const char *p = token.data(), *end = p + token.size(); p < end; ++word.characters) {
      const Character c = read_character(p);
      const std::uint32_t classes = table.classes(c);
      all &= classes;
      any |= classes;
      not_symbol = not_symbol || (classes & (kSymbol | kTerminal)) == 0;
      p += c.length;
    }
    word.flags = static_cast<std::uint16_t>(
        (any & kAlphabetic ? Word::kHasLetter : 0) | (not_symbol ? Word::kNotSymbol : 0) |
        (all & kPunctuation ? Word::kAllPunctuation : 0) |
        (word.characters == 1 && all & kSentenceEnd ? Word::kEndsSentence : 0));
    word.power = 1;
    for (const char byte : token) {
      word.hash += kByteNumbers[static_cast<unsigned char>(byte)] * word.power;
      word.power *= kHashBase;
    }
    if (const auto found = pattern_tokens.find(token); found != pattern_tokens.end())
      word.pattern = found->second;
    return word;
  }

  void emit(std::string_view piece, std::uint16_t gap) {
    if (piece.size() > kCachedBytes) {
      cut(piece, true);
      for (const std::string_view part : parts) {
        words.push_back(describe(part));
        words.back().flags |= gap;
        gap = 0;
      }
      return;
    }
    const std::uint64_t hash = piece_hash(piece);
    std::size_t at = hash & (kCacheSlots - 1);
    while (slots[at].key_bytes != 0 &&
           (slots[at].hash != hash || slots[at].key_bytes != piece.size() ||
            std::memcmp(keys.data() + slots[at].key, piece.data(), piece.size()) != 0))
      at = (at + 1) & (kCacheSlots - 1);
    if (slots[at].key_bytes == 0) at = remember(piece, hash, at);
    const Slot& slot = slots[at];
    for (std::uint32_t i = 0; i < slot.count; ++i) {
      words.push_back(pieces[slot.first + i]);
      Word& word = words.back();
      word.begin = piece.data() + reinterpret_cast<std::uintptr_t>(word.begin);
      word.flags |= gap;
      gap = 0;
    }
  }

  std::size_t remember(std::string_view piece, std::uint64_t hash, std::size_t at) {
    if (used == kCacheSlots / 2) {  // begins again, so that memory is bounded
      std::fill(slots.begin(), slots.end(), Slot());
      keys.clear();
      pieces.clear();
      used = 0;
      at = hash & (kCacheSlots - 1);
    }
    ++used;
    cut(piece, true);
    slots[at] = {hash, static_cast<std::uint32_t>(keys.size()), static_cast<std::uint32_t>(pieces.size()),
                 static_cast<std::uint16_t>(piece.size()), static_cast<std::uint16_t>(parts.size())};
    keys.insert(keys.end(), piece.begin(), piece.end());
    for (const std::string_view part : parts) {
      pieces.push_back(describe(part));
      pieces.back().begin =
          reinterpret_cast<const char*>(static_cast<std::uintptr_t>(part.data() - piece.data()));
    }
    return at;
  }

  void split(std::string_view text) {
    words.clear();
    const char *p = text.data(), *const end = p + text.size();
    std::uint16_t gap = 0;
    while (p < end) {
      const char* const space = p;
      while (p < end) {
        const std::size_t n = white_space_at(p, end);
        if (n == 0) break;
        p += n;
      }
      gap = p == space ? 0 : p - space == 1 && *space == ' ' ? Word::kAfterSpace : Word::kAfterGap;
      if (p == end) break;
      const char* const piece = p;
      do ++p;
      while (p < end && white_space_at(p, end) == 0);
      emit({piece, p}, gap);
      gap = 0;
    }
    ends_with_gap = gap == Word::kAfterGap;
    join_exceptions();
  }

  // Exceptions whose text was cut into several tokens, the longest first, then the first; a token belongs to
  // one only.
  void join_exceptions() {
    spans.clear();
    for (std::size_t i = 0; i < words.size(); ++i) {
      std::uint32_t node = words[i].pattern ? starts[words[i].pattern] : 0;
      for (std::size_t next = i + 1; node != 0; ++next) {
        if (nodes[node].ends) spans.push_back({i, next});
        if (next == words.size() || words[next].flags & Word::kAfterGap) break;
        node = words[next].pattern ? nodes[node].child(words[next].pattern) : 0;
      }
    }
    if (spans.empty()) return;
    std::stable_sort(spans.begin(), spans.end(),
                     [](const Span& a, const Span& b) { return a.end - a.begin > b.end - b.begin; });
    std::set<std::size_t> seen;
    std::vector<Span> taken;
    for (const Span& span : spans) {
      if (!seen.contains(span.begin) && !seen.contains(span.end - 1)) taken.push_back(span);
      for (std::size_t i = span.begin; i < span.end; ++i) seen.insert(i);
    }
    std::sort(taken.begin(), taken.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
    rewritten.clear();
    std::size_t at = 0;
    for (const Span& span : taken) {
      const char* const begin = words[span.begin].begin;
      const Word& last = words[span.end - 1];
      const std::string_view text(begin,
                                  static_cast<std::size_t>(last.begin + last.bytes -
                                                           begin));  // with blanks inside it is no exception
      const auto found = exceptions.find(text);
      if (found == exceptions.end()) continue;
      rewritten.insert(rewritten.end(), words.begin() + static_cast<std::ptrdiff_t>(at),
                       words.begin() + static_cast<std::ptrdiff_t>(span.begin));
      auto gap = static_cast<std::uint16_t>(words[span.begin].flags & (Word::kAfterSpace | Word::kAfterGap));
      const char* part_begin = begin;
      for (const std::string_view part : found->second) {
        rewritten.push_back(describe({part_begin, part.size()}));
        rewritten.back().flags |= gap;
        gap = 0;
        part_begin += part.size();
      }
      at = span.end;
    }
    rewritten.insert(rewritten.end(), words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
    std::swap(words, rewritten);
  }
};

EnglishWords::EnglishWords() : impl_(std::make_unique<Impl>()) {}
EnglishWords::~EnglishWords() = default;

std::span<const Word> EnglishWords::split(std::string_view text) {
  impl_->split(text);
  return impl_->words;
}

bool EnglishWords::ends_with_gap() const { return impl_->ends_with_gap; }

std::int64_t count_sentences(std::span<const Word> words, bool ends_with_gap) {
  std::int64_t count = 1;
  bool ended = false;  // an end was seen, and only punctuation since
  for (const Word& word : words) {
    if (ended && word.flags & Word::kAfterGap) {  // white space that is a token begins the next sentence
      ++count;
      ended = false;
    }
    if (word.flags & Word::kEndsSentence) {
      ended = true;
    } else if (ended && !(word.flags & Word::kAllPunctuation)) {
      ++count;
      ended = false;
    }
  }
  return count + (ended && ends_with_gap);
}

}  // namespace stoa::curate
