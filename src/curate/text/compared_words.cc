#include "curate/text/compared_words.h"

#include <xxhash.h>

#include "curate/text/character.h"

namespace stoa::curate {
namespace {

bool is_ascii_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

}  // namespace

std::vector<ComparedWord> compared_words(std::string_view text) {
  std::vector<ComparedWord> words;
  std::size_t number = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size(); ++number) {
    const Character c = read_character(text.data() + at);
    if (characters().has(c.value, kSpace)) {
      inside = false;
    } else {
      if (!inside) words.push_back({at, at, number, number, {}});
      inside = true;
      ComparedWord& word = words.back();
      word.end = at + c.length;
      word.last_char = number;
      if (c.length > 1)
        word.normal.append(text, at, c.length);
      else if (!is_ascii_punctuation(text[at]))
        word.normal += lower_ascii(text[at]);
    }
    at += c.length;
  }
  return words;
}

std::uint64_t hash_of_words(std::string_view joined) { return XXH3_64bits(joined.data(), joined.size()); }

}  // namespace stoa::curate
