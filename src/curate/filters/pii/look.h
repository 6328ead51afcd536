// Characters of a text, beyond its end, too: what patterns look at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "curate/text/character.h"

namespace stoa::curate {

// One character of the text, or its end.
struct Looked {
  char32_t value = 0;
  std::uint8_t length = 0;  // 0: the end
  bool is(std::uint32_t classes) const { return length > 0 && characters().has(value, classes); }
  bool is_one_of(std::string_view marks) const {
    return length == 1 && marks.find(static_cast<char>(value)) != std::string_view::npos;
  }
};

inline Looked look(std::string_view text, std::size_t at) {
  if (at >= text.size()) return {};
  const Character c = read_character(text.data() + at);
  return {c.value, c.length};
}
// `at` is not the beginning.
inline Looked look_before(std::string_view text, std::size_t at) {
  const Character c = read_character_before(text.data() + at);
  return {c.value, c.length};
}

}  // namespace stoa::curate
