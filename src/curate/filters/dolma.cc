#include "curate/filters/dolma.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "curate/filters/word_list.h"
#include "curate/text/character.h"
#include "curate/text/space_words.h"

namespace stoa::curate {
namespace {

using namespace std::string_view_literals;

constexpr std::array kRequiredWords = {"the"sv, "be"sv,   "to"sv,   "of"sv,
                                       "and"sv, "that"sv, "have"sv, "with"sv};
constexpr std::int64_t kFewestWordsOfALine = 3;

double ratio(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(whole, 1));
}

double median_length(std::span<const SpaceWord> words) {
  if (words.empty()) return 0;
  std::vector<std::uint32_t> lengths;
  lengths.reserve(words.size());
  for (const SpaceWord& word : words) lengths.push_back(word.characters);
  const std::size_t middle = lengths.size() / 2;
  std::nth_element(lengths.begin(), lengths.begin() + static_cast<std::ptrdiff_t>(middle), lengths.end());
  if (lengths.size() % 2 == 1) return lengths[middle];
  const std::uint32_t below =
      *std::max_element(lengths.begin(), lengths.begin() + static_cast<std::ptrdiff_t>(middle));
  return (static_cast<double>(below) + lengths[middle]) / 2;
}

bool has_letter(std::string_view word) {
  for (const char *p = word.data(), *end = p + word.size(); p < end;) {
    const Character c = read_character(p);
    if (characters().has(c.value, kAlphabetic)) return true;
    p += c.length;
  }
  return false;
}

class DolmaStage final : public Stage {
 public:
  explicit DolmaStage(const DolmaTaggers& options) : o_(options) {
    for (std::size_t i = 0; i < o_.most_common_ngram.size(); ++i)
      most_common_names_.push_back(fmt::format("fraction_of_characters_in_most_common_{}grams", i + 2));
    for (std::size_t i = 0; i < o_.duplicate_ngrams.size(); ++i)
      duplicate_names_.push_back(fmt::format("fraction_of_characters_in_duplicate_{}grams", i + 5));
    if (!o_.naughty_words.empty()) naughty_.emplace(o_.naughty_words);
  }

  void apply(Document& document, Features& features, Verdict& verdict) const override {
    const std::vector<SpaceWord> words = split_at_white_space(features.text());
    std::int64_t length = 0;
    for (const SpaceWord& word : words) length += word.characters;
    if (ngrams_fail(words, length, verdict) || words_fail(words, verdict) ||
        lines_fail(features, length, verdict) || phrases_fail(features, words, verdict))
      return;
    if (o_.remove_lines_with_no_ending_punctuation) remove_open_lines(document, features);
  }

 private:
  bool ngrams_fail(std::span<const SpaceWord> words, std::int64_t length, Verdict& verdict) const {
    for (std::size_t i = 0; i < most_common_names_.size(); ++i) {
      const NgramCounts ngrams(words, i + 2);
      if (ngrams.size() == 0) continue;
      const double value = ratio(ngrams.most() * ngrams.characters(ngrams.most_frequent()), length);
      if (verdict.above(most_common_names_[i], value, o_.most_common_ngram[i])) return true;
    }
    for (std::size_t i = 0; i < duplicate_names_.size(); ++i) {
      const NgramCounts ngrams(words, i + 5);
      if (ngrams.size() == 0) continue;
      std::int64_t all = 0, repeated = 0;
      for (std::size_t at = 0; at < ngrams.size(); ++at) {
        const std::int64_t own = ngrams.characters(at);
        all += own;
        if (ngrams.count_at(at) > 1) repeated += own;
      }
      if (verdict.above(duplicate_names_[i], ratio(repeated, all), o_.duplicate_ngrams[i])) return true;
    }
    return false;
  }

  bool words_fail(std::span<const SpaceWord> words, Verdict& verdict) const {
    std::int64_t symbols = 0, with_letter = 0, required = 0;
    for (const SpaceWord& word : words) {
      symbols += word.text.find('#') != word.text.npos || word.text.find("…") != word.text.npos;
      with_letter += has_letter(word.text);
      required += std::find(kRequiredWords.begin(), kRequiredWords.end(), word.text) != kRequiredWords.end();
    }
    const std::int64_t count = std::ssize(words);
    const double median = median_length(words);
    return verdict.below("word_count", static_cast<double>(count), static_cast<double>(o_.min_word_count)) ||
           verdict.above("word_count", static_cast<double>(count), static_cast<double>(o_.max_word_count)) ||
           verdict.below("median_word_length", median, o_.min_median_word_length) ||
           verdict.above("median_word_length", median, o_.max_median_word_length) ||
           verdict.above("symbol_to_word_ratio", ratio(symbols, count), o_.max_symbol_to_word_ratio) ||
           verdict.below("fraction_of_words_with_alpha_character", ratio(with_letter, count),
                         o_.min_words_with_alpha_character) ||
           verdict.below("required_word_count", static_cast<double>(required),
                         static_cast<double>(o_.min_required_word_count));
  }

  bool lines_fail(Features& features, std::int64_t length, Verdict& verdict) const {
    std::vector<Line> lines(features.lines().begin(), features.lines().end());
    if (o_.ignore_empty_lines) split_at_newlines(features, lines);
    std::int64_t bullets = 0, open_ends = 0;
    std::vector<SpaceWord> hashed;
    for (const Line& line : lines) {
      bullets += line.text.starts_with('*') || line.text.starts_with('-');
      open_ends += line.text.ends_with("…");
      hashed.push_back(space_word(line.text));
    }
    std::int64_t repeated = 0, repeated_characters = 0;
    const NgramCounts counts(hashed, 1);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (counts.count_at(i) < 2) continue;
      ++repeated;
      repeated_characters += lines[i].characters;
    }
    const std::int64_t count = std::ssize(lines);
    return verdict.above("fraction_of_lines_starting_with_bullet_point", ratio(bullets, count),
                         o_.max_lines_starting_with_bullet_point) ||
           verdict.above("fraction_of_lines_ending_with_ellipsis", ratio(open_ends, count),
                         o_.max_lines_ending_with_ellipsis) ||
           verdict.above("fraction_of_duplicate_lines", ratio(repeated, count), o_.max_duplicate_lines) ||
           verdict.above("fraction_of_characters_in_duplicate_lines", ratio(repeated_characters, length),
                         o_.max_characters_in_duplicate_lines);
  }

  bool phrases_fail(Features& features, std::span<const SpaceWord> words, Verdict& verdict) const {
    std::string lower;
    append_lower(features.text(), lower);
    const auto has = [&](std::string_view rule, bool found, bool drops) {
      return verdict.above(rule, found ? 1 : 0, drops ? 0.5 : 0);
    };
    if (has("has_curly_brace", lower.find('{') != lower.npos, o_.drop_curly_brace) ||
        has("has_lorem_ipsum", lower.find("lorem ipsum") != lower.npos, o_.drop_lorem_ipsum) ||
        has("has_javascript", has_javascript(lower), o_.drop_javascript) ||
        (naughty_ && has("has_naughty_word", naughty_->occurs_in(lower), true)))
      return true;
    std::int64_t open = 0, few = 0;
    for (const Line& line : features.lines()) {
      open += is_open(line.text);
      few += std::ssize(split_at_white_space(line.text)) < kFewestWordsOfALine;
    }
    const std::int64_t count = std::ssize(features.lines());
    return verdict.above("lines_with_no_ending_punctuation", ratio(open, count),
                         o_.max_lines_with_no_ending_punctuation) ||
           verdict.above("lines_with_too_few_words", ratio(few, count), o_.max_lines_with_too_few_words) ||
           verdict.fails("empty", words.empty());
  }

  bool has_javascript(std::string_view lower) const {
    if (!o_.javascript_as_word) return lower.find("javascript") != lower.npos;
    const auto words = split_at_white_space(lower);
    return std::any_of(words.begin(), words.end(), [](const SpaceWord& w) { return w.text == "javascript"; });
  }

  static bool is_open(std::string_view line) {
    const std::string_view text = strip(line);
    return text.empty() || ".?!\""sv.find(text.back()) == std::string_view::npos;
  }

  // Each line goes with its line end.
  static void remove_open_lines(Document& document, Features& features) {
    std::string kept;
    const auto lines = features.lines();
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (is_open(lines[i].text)) continue;
      kept += lines[i].text;
      if (i + 1 < lines.size()) kept += '\n';
    }
    if (kept == document.text) return;
    document.text = std::move(kept);
    features.reset(document.text);
  }

  const DolmaTaggers o_;
  std::vector<std::string> most_common_names_, duplicate_names_;
  std::optional<WordList> naughty_;
};

}  // namespace

void declare(config::Section<DolmaTaggers>& s) {
  s.field("ignore_empty_lines", &DolmaTaggers::ignore_empty_lines)
      .help("Runs of line ends count as one (gopher_v2).");
  s.field("most_common_ngram", &DolmaTaggers::most_common_ngram)
      .range(0, 100)
      .help(
          "Largest shares of characters in the most frequent sequence of 2, 3, 4 … words; 0 switches a rule "
          "off.");
  s.field("duplicate_ngrams", &DolmaTaggers::duplicate_ngrams)
      .range(0, 1)
      .help("Largest shares of characters in sequences of 5, 6, 7 … words that occur more than once.");
  s.field("min_word_count", &DolmaTaggers::min_word_count).at_least(0).help("Fewest words.");
  s.field("max_word_count", &DolmaTaggers::max_word_count).at_least(0).help("Most words.");
  s.field("min_median_word_length", &DolmaTaggers::min_median_word_length)
      .at_least(0)
      .unit("characters")
      .help("Smallest median length of words.");
  s.field("max_median_word_length", &DolmaTaggers::max_median_word_length)
      .at_least(0)
      .unit("characters")
      .help("Largest median length of words.");
  s.field("max_symbol_to_word_ratio", &DolmaTaggers::max_symbol_to_word_ratio)
      .range(0, 1)
      .help("Largest share of words with # or ….");
  s.field("min_words_with_alpha_character", &DolmaTaggers::min_words_with_alpha_character)
      .range(0, 1)
      .help("Smallest share of words with a letter.");
  s.field("min_required_word_count", &DolmaTaggers::min_required_word_count)
      .at_least(0)
      .help("Fewest occurrences of the, be, to, of, and, that, have, with.");
  s.field("max_lines_starting_with_bullet_point", &DolmaTaggers::max_lines_starting_with_bullet_point)
      .range(0, 1)
      .help("Largest share of lines that begin with * or -.");
  s.field("max_lines_ending_with_ellipsis", &DolmaTaggers::max_lines_ending_with_ellipsis)
      .range(0, 1)
      .help("Largest share of lines that end with ….");
  s.field("max_duplicate_lines", &DolmaTaggers::max_duplicate_lines)
      .range(0, 1)
      .help("Largest share of lines that occur more than once.");
  s.field("max_characters_in_duplicate_lines", &DolmaTaggers::max_characters_in_duplicate_lines)
      .at_least(0)
      .help("Characters of such lines, at most, per character that is no white space.");
  s.field("drop_curly_brace", &DolmaTaggers::drop_curly_brace).help("Drop documents with {.");
  s.field("drop_lorem_ipsum", &DolmaTaggers::drop_lorem_ipsum).help("Drop documents with \"lorem ipsum\".");
  s.field("drop_javascript", &DolmaTaggers::drop_javascript).help("Drop documents with \"javascript\".");
  s.field("javascript_as_word", &DolmaTaggers::javascript_as_word)
      .help("Where it is a word of its own only (c4_v1).");
  s.field("naughty_words", &DolmaTaggers::naughty_words)
      .help("File of words and phrases, one a line: documents with one are dropped.");
  s.field("max_lines_with_no_ending_punctuation", &DolmaTaggers::max_lines_with_no_ending_punctuation)
      .range(0, 1)
      .help("Largest share of lines that do not end with . ? ! or \".");
  s.field("max_lines_with_too_few_words", &DolmaTaggers::max_lines_with_too_few_words)
      .range(0, 1)
      .help("Largest share of lines of fewer than three words.");
  s.field("remove_lines_with_no_ending_punctuation", &DolmaTaggers::remove_lines_with_no_ending_punctuation)
      .help("Cut such lines out of what is kept.");
}

std::unique_ptr<Stage> make_stage(const DolmaTaggers& options) {
  return std::make_unique<DolmaStage>(options);
}

}  // namespace stoa::curate
