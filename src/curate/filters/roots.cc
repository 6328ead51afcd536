#include "curate/filters/roots.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <unordered_set>

#include "curate/filters/word_list.h"
#include "curate/text/character.h"

namespace stoa::curate {
namespace {

// What other programs take for a blank.
constexpr char32_t kOtherBlanks[] = {0x84,   0xa0,   0x2002, 0x2003, 0x2005, 0x2008,
                                     0x2009, 0x200a, 0x202f, 0x3000, 0xfffc};

bool is_special(char32_t c) {
  const auto runs = roots_special_characters();
  const auto after = std::upper_bound(runs.begin(), runs.end(), c,
                                      [](char32_t value, const auto& run) { return value < run.first; });
  return after != runs.begin() && c <= std::prev(after)->second;
}

// Without special characters at its ends.
std::string_view strip_special(std::string_view word) {
  while (!word.empty()) {
    const Character c = read_character(word.data());
    if (!is_special(c.value)) break;
    word.remove_prefix(c.length);
  }
  while (!word.empty()) {
    const Character c = read_character_before(word.data() + word.size());
    if (!is_special(c.value)) break;
    word.remove_suffix(c.length);
  }
  return word;
}

// Calls visit(piece) for the pieces between separators that are not empty.
template <class Visit>
void each_piece(std::string_view text, const char* separators, Visit&& visit) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(separators), text.size());
    if (end > 0) visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// How often each of a number of hashes occurs.
std::vector<std::size_t> frequencies(std::vector<std::uint64_t>& hashes) {
  std::sort(hashes.begin(), hashes.end());
  std::vector<std::size_t> counts;
  for (std::size_t begin = 0, end = 0; begin < hashes.size(); begin = end) {
    while (end < hashes.size() && hashes[end] == hashes[begin]) ++end;
    counts.push_back(end - begin);
  }
  return counts;
}

// Hashes of every sequence of n units of a text. `offsets`: where each begins, and the end of the text.
std::vector<std::uint64_t> sequence_hashes(std::string_view text, const std::vector<std::size_t>& offsets,
                                           std::size_t n) {
  std::vector<std::uint64_t> hashes;
  for (std::size_t i = 0; i + n < offsets.size(); ++i)
    hashes.push_back(XXH3_64bits(text.data() + offsets[i], offsets[i + n] - offsets[i]));
  return hashes;
}

// The share of the most frequent sequences of n characters: of as many as the root of their number, but none
// that occurs once.
double character_repetition(std::string_view text, std::size_t n) {
  std::vector<std::size_t> offsets;
  for (std::size_t at = 0; at < text.size(); at += read_character(text.data() + at).length)
    offsets.push_back(at);
  offsets.push_back(text.size());
  std::vector<std::uint64_t> hashes = sequence_hashes(text, offsets, n);
  if (hashes.empty()) return 0;
  std::vector<std::size_t> counts = frequencies(hashes);
  const auto once = static_cast<std::size_t>(std::count(counts.begin(), counts.end(), std::size_t{1}));
  const std::size_t most =
      std::min(static_cast<std::size_t>(std::sqrt(static_cast<double>(counts.size()))), counts.size() - once);
  std::sort(counts.begin(), counts.end(), std::greater<>());
  std::size_t sum = 0;
  for (std::size_t i = 0; i < most; ++i) sum += counts[i];
  return static_cast<double>(sum) / static_cast<double>(hashes.size());
}

// The share of sequences of n words that occur more than once.
double word_repetition(const std::vector<std::string>& words, std::size_t n) {
  std::string joined;
  std::vector<std::size_t> offsets{0};
  for (const std::string& word : words) {
    (joined += word) += ' ';
    offsets.push_back(joined.size());
  }
  std::vector<std::uint64_t> hashes = sequence_hashes(joined, offsets, n);
  if (hashes.empty()) return 0;
  std::size_t repeated = 0;
  for (const std::size_t count : frequencies(hashes)) repeated += count > 1 ? count : 0;
  return static_cast<double>(repeated) / static_cast<double>(hashes.size());
}

class RootsStage final : public Stage {
 public:
  explicit RootsStage(const RootsFilter& options)
      : options_(options),
        stop_words_(list(options.stop_words)),
        flagged_words_(list(options.flagged_words)) {}

  void apply(Document& document, Features& features, Verdict& verdict) const override {
    std::string cleaned = clean(document.text);
    if (cleaned != document.text) {
      document.text = std::move(cleaned);
      features.reset(document.text);
    }
    std::int64_t words = 0;
    each_piece(document.text, " \n\t", [&](std::string_view word) { words += !strip_special(word).empty(); });
    const auto count = static_cast<double>(words);
    if (verdict.below("number_words", count, static_cast<double>(options_.number_words_min_cutoff))) return;
    if (verdict.above("number_words", count, static_cast<double>(options_.number_words_max_cutoff))) return;
    if (verdict.above("character_repetition",
                      character_repetition(document.text,
                                           static_cast<std::size_t>(options_.character_repetition_length)),
                      options_.character_repetition_max_cutoff))
      return;
    // In small letters first, which may change what is at the ends.
    std::vector<std::string> lower;
    each_piece(document.text, " \n\t", [&](std::string_view word) {
      std::string small;
      append_lower(word, small);
      if (const std::string_view left = strip_special(small); !left.empty()) lower.emplace_back(left);
    });
    if (verdict.above("word_repetition",
                      word_repetition(lower, static_cast<std::size_t>(options_.word_repetition_length)),
                      options_.word_repetition_max_cutoff))
      return;
    if (verdict.above("special_characters", special_characters(document.text),
                      options_.special_characters_max_cutoff))
      return;
    if (!stop_words_.empty() &&
        verdict.below("stopwords", share(lower, stop_words_), options_.stopwords_min_cutoff))
      return;
    if (!flagged_words_.empty())
      verdict.above("flagged_words", share(lower, flagged_words_), options_.flagged_words_max_cutoff);
  }

 private:
  using Words = std::unordered_set<std::string>;
  static Words list(const std::string& file) {
    if (file.empty()) return {};
    const WordList entries(file);
    Words all = entries.words();
    all.insert(entries.phrases().begin(), entries.phrases().end());  // what groups of words may be
    return all;
  }
  // Words, and groups of words where the language has words of several pieces, that are on the list, per
  // word.
  double share(const std::vector<std::string>& words, const Words& of) const {
    if (words.empty()) return 0;
    std::size_t found = 0;
    for (const std::string& word : words) found += of.contains(word);
    std::string group;
    for (const std::int64_t size : options_.words_augmentation_group_sizes) {
      const auto n = static_cast<std::size_t>(size);
      for (std::size_t begin = 0; begin + n <= words.size(); ++begin) {
        group = words[begin];
        for (std::size_t i = begin + 1; i < begin + n; ++i)
          (group += options_.words_augmentation_join_char) += words[i];
        found += of.contains(group);
      }
    }
    return std::min(1.0, static_cast<double>(found) / static_cast<double>(words.size()));
  }
  static double special_characters(std::string_view text) {
    std::size_t all = 0, special = 0;
    for (std::size_t at = 0; at < text.size(); ++all) {
      const Character c = read_character(text.data() + at);
      special += is_special(c.value);
      at += c.length;
    }
    return all > 0 ? static_cast<double>(special) / static_cast<double>(all) : 0;
  }

  bool stays(std::string_view word) const {
    const std::string_view left = strip_special(word);
    for (const std::string& part : options_.incorrect_word_substrings)
      if (left.find(part) != left.npos) return false;
    const auto most = static_cast<std::size_t>(options_.length_word_max_cutoff);
    return most == 0 || count_characters(word) <= most || (!left.empty() && count_characters(left) <= most);
  }

  // The text as ROOTS changes it before it judges.
  std::string clean(std::string_view text) const {
    text = strip(text);
    std::string blanks;
    for (std::size_t at = 0; at < text.size();) {
      const Character c = read_character(text.data() + at);
      if (options_.uniform_whitespace &&
          std::find(std::begin(kOtherBlanks), std::end(kOtherBlanks), c.value) != std::end(kOtherBlanks))
        blanks += ' ';
      else
        blanks += text.substr(at, c.length);
      at += c.length;
    }
    if (options_.incorrect_word_substrings.empty() && options_.length_word_max_cutoff == 0) return blanks;
    std::string out;
    each_piece(blanks, "\n", [&](std::string_view line) {
      bool any_cell = false;
      each_piece(line, "\t", [&](std::string_view cell) {
        bool any_word = false;
        each_piece(cell, " ", [&](std::string_view word) {
          if (!stays(word)) return;
          if (any_word)
            out += ' ';
          else if (any_cell)
            out += '\t';
          else if (!out.empty())
            out += '\n';
          any_word = any_cell = true;
          out += word;
        });
      });
    });
    return out;
  }

  const RootsFilter options_;
  const Words stop_words_, flagged_words_;
};

}  // namespace

void declare(config::Section<RootsFilter>& s) {
  s.field("uniform_whitespace", &RootsFilter::uniform_whitespace).help("All kinds of blanks become blanks.");
  s.field("incorrect_word_substrings", &RootsFilter::incorrect_word_substrings)
      .help("Words with one of these go out of the text (ROOTS: http, www, .com, href, //).");
  s.field("length_word_max_cutoff", &RootsFilter::length_word_max_cutoff)
      .range(0, 1e6)
      .unit("characters")
      .help("Longer words go out of the text (ROOTS: 50, en 25); 0: none.");
  s.field("number_words_min_cutoff", &RootsFilter::number_words_min_cutoff)
      .range(0, 1e12)
      .help("Fewest words (en 20); 0 switches a rule off.");
  s.field("number_words_max_cutoff", &RootsFilter::number_words_max_cutoff)
      .range(0, 1e12)
      .help("Most words.");
  s.field("character_repetition_length", &RootsFilter::character_repetition_length)
      .range(1, 1000)
      .unit("characters")
      .help("Length of the sequences of characters that are counted.");
  s.field("character_repetition_max_cutoff", &RootsFilter::character_repetition_max_cutoff)
      .range(0, 1)
      .help("Largest share of the most frequent sequences (en 0.106).");
  s.field("word_repetition_length", &RootsFilter::word_repetition_length)
      .range(1, 1000)
      .unit("words")
      .help("Length of the sequences of words that are counted.");
  s.field("word_repetition_max_cutoff", &RootsFilter::word_repetition_max_cutoff)
      .range(0, 1)
      .help("Largest share of sequences that occur more than once (en 0.19).");
  s.field("special_characters_max_cutoff", &RootsFilter::special_characters_max_cutoff)
      .range(0, 1)
      .help("Largest share of punctuation, digits, blanks, symbols and emoji.");
  s.field("words_augmentation_group_sizes", &RootsFilter::words_augmentation_group_sizes)
      .range(2, 16)
      .help("Groups of so many words are looked up in the lists, too (vi and zh [2]).");
  s.field("words_augmentation_join_char", &RootsFilter::words_augmentation_join_char)
      .help("What stands between the words of such a group (vi a blank, zh nothing).");
  s.field("stop_words", &RootsFilter::stop_words).help("File of stop words, one a line; empty: no rule.");
  s.field("stopwords_min_cutoff", &RootsFilter::stopwords_min_cutoff)
      .range(0, 1)
      .help("Smallest share of words in stop_words (en 0.3).");
  s.field("flagged_words", &RootsFilter::flagged_words)
      .help("File of flagged words, one a line; empty: no rule.");
  s.field("flagged_words_max_cutoff", &RootsFilter::flagged_words_max_cutoff)
      .range(0, 1)
      .help("Largest share of words in flagged_words (en 0.01).");
}

std::unique_ptr<Stage> make_stage(const RootsFilter& options) {
  return std::make_unique<RootsStage>(options);
}

}  // namespace stoa::curate
