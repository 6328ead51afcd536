#include "curate/run/excerpt.h"

#include <algorithm>

namespace stoa::curate {

std::string_view whole_characters(std::string_view text, std::size_t begin, std::size_t end) {
  const auto inside = [&](std::size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
  };
  end = std::min(end, text.size());
  while (begin > 0 && inside(begin)) --begin;
  while (end > begin && inside(end)) --end;
  return text.substr(begin, end - begin);
}

}  // namespace stoa::curate
