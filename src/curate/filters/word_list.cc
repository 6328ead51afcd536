#include "curate/filters/word_list.h"

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "curate/text/character.h"
#include "curate/text/space_words.h"
#include "data/text_source.h"

namespace stoa::curate {

std::string list_text(const fs::path& file) {
  const auto source = data::open_text(file, {});
  std::string text, piece(1 << 16, '\0');
  while (const std::size_t got = source->read(piece.data(), piece.size())) text.append(piece, 0, got);
  return text;
}

WordList::WordList(const fs::path& file) {
  std::istringstream lines(list_text(file));
  for (std::string line; std::getline(lines, line);) {
    std::string entry;
    append_lower(strip(line), entry);
    if (entry.empty()) continue;
    if (entry.find(' ') == entry.npos)
      words_.insert(std::move(entry));
    else
      phrases_.push_back(std::move(entry));
  }
  require<ConfigError>(!words_.empty() || !phrases_.empty(), "the list '{}' has no entry", file.string());
}

bool WordList::occurs_in(std::string_view lower) const {
  for (const SpaceWord& word : split_at_white_space(lower))
    if (words_.contains(std::string(word.text))) return true;
  return std::any_of(phrases_.begin(), phrases_.end(),
                     [&](const std::string& phrase) { return lower.find(phrase) != lower.npos; });
}

}  // namespace stoa::curate
