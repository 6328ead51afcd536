#include "curate/filters/dclm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "curate/text/character.h"
#include "curate/text/space_words.h"
#include "curate/text/word_break.h"

namespace stoa::curate {
namespace {

using namespace std::string_view_literals;

constexpr std::array kStopWords = {"the"sv, "be"sv, "to"sv, "of"sv, "and"sv, "that"sv, "have"sv, "with"sv};
constexpr std::array kCounted = {"likes"sv,     "shares"sv,    "comments"sv,  "retweets"sv,
                                 "reposts"sv,   "quotes"sv,    "bookmarks"sv, "upvotes"sv,
                                 "downvotes"sv, "downloads"sv, "views"sv,     "followers"sv};
constexpr std::int64_t kLongestButtonLine = 10;  // words

bool is_alphanumeric_start(std::string_view word) {
  return characters().has(read_character(word.data()).value, kAlphabetic | kNumeric);
}

// As fastText's tokenizer cuts words; of them those that begin with a letter or number.
std::int64_t count_words(std::string_view text) {
  constexpr std::string_view kBlanks(" \n\r\t\v\f\0", 7);
  std::int64_t count = 0;
  for (std::size_t at = text.find_first_not_of(kBlanks); at != text.npos;) {
    count += is_alphanumeric_start(text.substr(at));
    at = text.find_first_not_of(kBlanks, text.find_first_of(kBlanks, at));
  }
  return count;
}

// Stripped pieces that are not empty.
std::vector<SpaceWord> pieces_between(std::string_view text, std::string_view separator) {
  std::vector<SpaceWord> pieces;
  for (;;) {
    const std::size_t end = text.find(separator);
    const std::string_view piece = strip(text.substr(0, end));
    if (!piece.empty()) pieces.push_back(space_word(piece));
    if (end == text.npos) return pieces;
    text.remove_prefix(end + separator.size());
  }
}

std::int64_t occurrences(std::string_view text, std::string_view part) {
  std::int64_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

double quotient_of(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

// Shares of pieces, and of their characters, that occur more than once; 0 for a single piece.
struct RepeatedShare {
  double pieces = 0, characters = 0;
};
RepeatedShare repeated_share(std::span<const SpaceWord> pieces) {
  if (pieces.size() < 2) return {};
  const NgramCounts counts(pieces, 1);
  std::int64_t repeated = 0, characters = 0;
  for (const SpaceWord& piece : pieces) characters += piece.characters;
  for (std::size_t i = 0; i < pieces.size(); ++i) repeated += counts.count_at(i) > 1;
  return {quotient_of(repeated, std::ssize(pieces)),
          quotient_of(counts.characters_in_repeated(), characters)};
}

// The longest of the most frequent n-grams times its frequency.
std::int64_t most_common_characters(const NgramCounts& ngrams) {
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < ngrams.size(); ++i)
    if (ngrams.is_first(i) && ngrams.count_at(i) == ngrams.most())
      longest = std::max(longest, ngrams.characters(i));
  return longest * ngrams.most();
}

// As ^\W*\d(?:,|\.|\d)*(?:K|k|M|m|B|b)?\s+(?:likes|…)\W*$ of the line in lower case.
bool is_counter(std::string_view line) {
  const auto take = [&](std::uint32_t any, bool wanted) {
    bool took = false;
    while (!line.empty()) {
      const Character c = read_character(line.data());
      if (characters().has(c.value, any) != wanted) break;
      line.remove_prefix(c.length);
      took = true;
    }
    return took;
  };
  take(kWord, false);
  if (line.empty() || !characters().has(read_character(line.data()).value, kDigit)) return false;
  do {
    if (line.starts_with(',') || line.starts_with('.')) line.remove_prefix(1);
  } while (take(kDigit, true) || line.starts_with(',') || line.starts_with('.'));
  if (!line.empty() && "kmb"sv.find(line.front()) != std::string_view::npos) line.remove_prefix(1);
  if (!take(kSpace, true)) return false;
  const auto what =
      std::find_if(kCounted.begin(), kCounted.end(), [&](std::string_view w) { return line.starts_with(w); });
  if (what == kCounted.end()) return false;
  line.remove_prefix(what->size());
  take(kWord, false);
  return line.empty();
}

double share_of_class(std::string_view line, std::uint32_t any) {
  std::int64_t found = 0, all = 0;
  for (const char *p = line.data(), *end = p + line.size(); p < end;) {
    const Character c = read_character(p);
    p += c.length;
    ++all;
    found += characters().has(c.value, any);
  }
  return all == 0 ? 0 : quotient_of(found, all);
}

bool equal_letters(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                    [](char a, char b) { return lower_ascii(a) == b; });
}

std::size_t space_at(std::string_view text) {
  if (text.empty()) return 0;
  const Character c = read_character(text.data());
  return characters().has(c.value, kSpace) ? c.length : 0;
}

// `\s?PHRASE` in any case, everywhere.
std::string without_phrase(std::string_view line, std::string_view phrase) {
  std::string out;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t blank = space_at(line.substr(at));
    if (blank > 0 && equal_letters(line.substr(at + blank, phrase.size()), phrase))
      at += blank + phrase.size();
    else if (equal_letters(line.substr(at, phrase.size()), phrase))
      at += phrase.size();
    else
      out += line[at++];
  }
  return out;
}

// `\s?read more...$`, whose dots stand for any character but a line end.
std::string without_read_more(std::string_view line) {
  constexpr std::string_view kPhrase = "read more";
  std::string_view before = line;
  for (int i = 0; i < 3; ++i) {
    if (before.empty()) return std::string(line);
    before.remove_suffix(read_character_before(before.data() + before.size()).length);
  }
  if (before.size() < kPhrase.size() ||
      !equal_letters(before.substr(before.size() - kPhrase.size()), kPhrase))
    return std::string(line);
  before.remove_suffix(kPhrase.size());
  if (!before.empty()) {
    const Character c = read_character_before(before.data() + before.size());
    if (characters().has(c.value, kSpace)) before.remove_suffix(c.length);
  }
  return std::string(before);
}

// `^sign-in\s?`.
std::string without_sign_in(std::string_view line) {
  constexpr std::string_view kPhrase = "sign-in";
  if (!equal_letters(line.substr(0, kPhrase.size()), kPhrase)) return std::string(line);
  const std::string_view rest = line.substr(kPhrase.size());
  return std::string(rest.substr(space_at(rest)));
}

class DclmStage final : public Stage {
 public:
  explicit DclmStage(const DclmHeuristics& options) : o_(options) {}

  void apply(Document& document, Features& features, Verdict& verdict) const override {
    std::string text = limit_newlines(document.text);
    if (pages_fail(text, verdict) || repetitions_fail(text, verdict)) return;
    const std::int64_t before = count_words(text);
    if (verdict.fails("empty", before == 0) || before == 0) return;
    text = remove_lines(std::move(text));
    const bool nothing = text.empty();
    if (verdict.fails("no_lines", nothing) || nothing) return;
    if (verdict.above("word_removal_ratio", quotient_of(before - count_words(text), before),
                      o_.max_removed_ratio))
      return;
    if (text == document.text) return;
    document.text = std::move(text);
    features.reset(document.text);
  }

 private:
  std::string limit_newlines(std::string_view text) const {
    std::string out;
    std::int64_t run = 0;
    for (const char c : text) {
      run = c == '\n' ? run + 1 : 0;
      if (o_.max_consecutive_newlines == 0 || run <= o_.max_consecutive_newlines) out += c;
    }
    return out;
  }

  bool pages_fail(std::string_view text, Verdict& verdict) const {
    const std::vector<SpaceWord> words = split_at_white_space(text);
    const auto count = static_cast<double>(count_words(text));
    if (verdict.below("page_length", count, static_cast<double>(o_.min_words)) ||
        verdict.above("page_length", count, static_cast<double>(o_.max_words)) ||
        verdict.fails("empty", words.empty()))
      return true;
    if (words.empty()) return true;
    std::int64_t length = 0, without_letter = 0, stop_words = 0, symbols = 0, bullets = 0, open_ends = 0;
    std::string lower;
    for (const SpaceWord& word : words) {
      length += word.characters;
      without_letter += share_of_class(word.text, kAlphabetic) == 0;
      lower.clear();
      append_lower(word.text, lower);
      stop_words += std::find(kStopWords.begin(), kStopWords.end(), lower) != kStopWords.end();
    }
    for (const std::string_view symbol : {"#"sv, "..."sv, ". . ."sv, "…"sv})
      symbols += occurrences(text, symbol);
    const auto lines = pieces_between(text, "\n");
    for (const SpaceWord& line : lines) {
      bullets += line.text.starts_with("●") || line.text.starts_with("•") || line.text.starts_with('*') ||
                 line.text.starts_with('-');
      open_ends += line.text.ends_with("...") || line.text.ends_with(". . .") || line.text.ends_with("…");
    }
    const std::int64_t all = std::ssize(words), line_count = std::ssize(lines);
    const double mean = quotient_of(length, all);
    return verdict.below("word_length", mean, o_.min_word_length) ||
           verdict.above("word_length", mean, o_.max_word_length) ||
           verdict.above("symbol_ratio", quotient_of(symbols, all), o_.max_symbol_to_word_ratio) ||
           verdict.above("bullet_count", quotient_of(bullets, line_count), o_.max_bullet_start_ratio) ||
           verdict.above("ellipsis_count", quotient_of(open_ends, line_count), o_.max_ellipsis_end_ratio) ||
           verdict.above("alphabetic_word_ratio", quotient_of(without_letter, all),
                         o_.max_non_alphabetic_word_ratio) ||
           verdict.below("stop_word", static_cast<double>(stop_words), static_cast<double>(o_.min_stop_word));
  }

  bool repetitions_fail(std::string_view text, Verdict& verdict) const {
    const RepeatedShare lines = repeated_share(pieces_between(text, "\n")),
                        paragraphs = repeated_share(pieces_between(text, "\n\n"));
    if (verdict.above("repeated_lines", lines.pieces, o_.max_repeated_lines) ||
        verdict.above("repeated_paragraphs", paragraphs.pieces, o_.max_repeated_paragraphs) ||
        verdict.above("repeated_line_characters", lines.characters, o_.max_repeated_line_characters) ||
        verdict.above("repeated_paragraph_characters", paragraphs.characters,
                      o_.max_repeated_paragraph_characters))
      return true;
    std::vector<std::string_view> pieces;
    split_at_word_breaks(text, pieces);
    std::vector<SpaceWord> words;
    std::int64_t length = 0;
    for (const std::string_view piece : pieces) {
      if (!is_alphanumeric_start(piece)) continue;
      words.push_back(space_word(piece));
      length += words.back().characters;
    }
    const auto share = [&](std::int64_t part) { return length == 0 ? 0 : quotient_of(part, length); };
    for (std::size_t i = 0; i < o_.max_most_common_ngram.size(); ++i) {
      const NgramCounts ngrams(words, i + 2);
      if (verdict.above(fmt::format("most_common_{}_gram", i + 2),
                        ngrams.most() > 1 ? share(most_common_characters(ngrams)) : 0,
                        o_.max_most_common_ngram[i]))
        return true;
    }
    for (std::size_t i = 0; i < o_.max_repeated_ngrams.size(); ++i)
      if (verdict.above(fmt::format("repeated_{}_grams", i + 5),
                        share(NgramCounts(words, i + 5).characters_in_repeated()), o_.max_repeated_ngrams[i]))
        return true;
    return false;
  }

  // Lines that `make` makes nothing of go; a line that was empty stays.
  static std::string with_lines(std::string_view text, const std::function<bool(std::string&)>& make) {
    std::string out, line;
    bool first = true;
    for (;;) {
      const std::size_t end = text.find('\n');
      line = text.substr(0, end);
      if (line.empty() || make(line)) {
        if (!first) out += '\n';
        out += line;
        first = false;
      }
      if (end == text.npos) return out;
      text.remove_prefix(end + 1);
    }
  }

  std::string remove_lines(std::string text) const {
    const auto keep_lines = [&](const std::function<bool(std::string&)>& keeps, bool strips = true) {
      std::string made = with_lines(text, keeps);
      text = strips ? std::string(strip(made)) : std::move(made);
    };
    if (o_.max_uppercase_ratio_of_line != 0)
      keep_lines([&](std::string& line) {
        return share_of_class(line, kCapital) <= o_.max_uppercase_ratio_of_line;
      });
    if (o_.max_numeric_ratio_of_line != 0)
      keep_lines([&](std::string& line) {
        return share_of_class(line, kPythonDigit) <= o_.max_numeric_ratio_of_line;
      });
    if (o_.remove_counters)
      keep_lines([](std::string& line) {
        std::string lower;
        append_lower(line, lower);
        return !is_counter(lower);
      });
    keep_lines(
        [&](std::string& line) { return std::ssize(split_at_white_space(line)) >= o_.min_words_of_line; },
        false);
    if (!o_.remove_buttons) return text;
    const auto cut = [&](const std::function<std::string(std::string_view)>& change) {
      keep_lines([&](std::string& line) {
        if (std::ssize(split_at_white_space(line)) > kLongestButtonLine) return true;
        line = change(line);
        return !strip(line).empty();
      });
    };
    cut([](std::string_view line) { return without_phrase(line, "items in cart"); });
    cut(without_read_more);
    cut(without_sign_in);
    return text;
  }

  const DclmHeuristics o_;
};

}  // namespace

void declare(config::Section<DclmHeuristics>& s) {
  using O = DclmHeuristics;
  s.field("max_consecutive_newlines", &O::max_consecutive_newlines)
      .at_least(0)
      .help("Longer runs of line ends are shortened; 0: any.");
  s.field("min_words", &O::min_words)
      .at_least(0)
      .help("Fewest words that begin with a letter or number; 0 switches a rule off.");
  s.field("max_words", &O::max_words).at_least(0).help("Most words that begin with a letter or number.");
  s.field("min_word_length", &O::min_word_length)
      .at_least(0)
      .unit("characters")
      .help("Smallest mean length of words between white space.");
  s.field("max_word_length", &O::max_word_length)
      .at_least(0)
      .unit("characters")
      .help("Largest mean length of words between white space.");
  s.field("max_symbol_to_word_ratio", &O::max_symbol_to_word_ratio)
      .at_least(0)
      .help("Most # and ellipses per word.");
  s.field("max_bullet_start_ratio", &O::max_bullet_start_ratio)
      .range(0, 1)
      .help("Largest share of lines that begin with ●, •, * or -.");
  s.field("max_ellipsis_end_ratio", &O::max_ellipsis_end_ratio)
      .range(0, 1)
      .help("Largest share of lines that end with an ellipsis.");
  s.field("max_non_alphabetic_word_ratio", &O::max_non_alphabetic_word_ratio)
      .range(0, 1)
      .help("Largest share of words without a letter.");
  s.field("min_stop_word", &O::min_stop_word)
      .at_least(0)
      .help("Fewest occurrences of the, be, to, of, and, that, have, with, in any case.");
  s.field("max_repeated_lines", &O::max_repeated_lines)
      .range(0, 1)
      .help("Largest share of lines that occur more than once, all of them counted.");
  s.field("max_repeated_paragraphs", &O::max_repeated_paragraphs)
      .range(0, 1)
      .help("Largest share of such paragraphs.");
  s.field("max_repeated_line_characters", &O::max_repeated_line_characters)
      .range(0, 1)
      .help("Largest share of characters in such lines.");
  s.field("max_repeated_paragraph_characters", &O::max_repeated_paragraph_characters)
      .range(0, 1)
      .help("Largest share of characters in such paragraphs.");
  s.field("max_most_common_ngram", &O::max_most_common_ngram)
      .range(0, 100)
      .help(
          "Largest shares of characters in the most frequent sequence of 2, 3, 4 … words (UAX #29), the "
          "longest of equally frequent ones.");
  s.field("max_repeated_ngrams", &O::max_repeated_ngrams)
      .range(0, 1)
      .help("Largest shares of characters in sequences of 5, 6, 7 … words that occur more than once.");
  s.field("max_uppercase_ratio_of_line", &O::max_uppercase_ratio_of_line)
      .range(0, 1)
      .help("Lines with a larger share of capitals go; 0: none.");
  s.field("max_numeric_ratio_of_line", &O::max_numeric_ratio_of_line)
      .range(0, 1)
      .help("Lines with a larger share of digits go; 0: none.");
  s.field("remove_counters", &O::remove_counters).help("Lines such as \"3 likes\" go.");
  s.field("min_words_of_line", &O::min_words_of_line).at_least(0).help("Lines with fewer words go.");
  s.field("remove_buttons", &O::remove_buttons)
      .help(
          "\"items in cart\", \"Read more...\" at the end and \"Sign-in\" at the beginning go from lines of "
          "up to ten words.");
  s.field("max_removed_ratio", &O::max_removed_ratio)
      .range(0, 1)
      .help("Largest share of words that may go with lines; more drop the document.");
}

std::unique_ptr<Stage> make_stage(const DclmHeuristics& options) {
  return std::make_unique<DclmStage>(options);
}

}  // namespace stoa::curate
