#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>
#include <unordered_set>

#include "curate/filters/nemo.h"
#include "curate/text/character.h"
#include "curate/text/space_words.h"

namespace stoa::curate {
namespace {

using namespace std::string_view_literals;

constexpr std::array kEllipses = {"..."sv, "[...]"sv, "…"sv,           "(...)"sv,
                                  "[…]"sv, "-»"sv,    "read more.."sv, "read more"sv};
constexpr std::array kBullets = {"•"sv, "‣"sv, "⁃"sv, "⁌"sv, "⁍"sv, "∙"sv,
                                 "○"sv, "●"sv, "◘"sv, "◦"sv, "⦾"sv, "⦿"sv};
constexpr std::array kCommonWords = {"the"sv, "be"sv, "to"sv, "of"sv, "and"sv, "that"sv, "have"sv, "with"sv};
// Longer phrases of the original contain one of these ("uses cookies"), or are listed after them.
constexpr std::array kBoilerplate = {
    "terms of use"sv,
    "privacy policy"sv,
    "cookie policy"sv,
    "uses cookies"sv,
    "privacy overview"sv,
    "use of cookies"sv,
    "use cookies"sv,
    "privacy & cookies policy"sv,
    "privacy and cookies policy"sv,
    "necessary cookies are absolutely essential for the website to function properly. this category only "
    "includes cookies that ensures "
    "basic functionalities and security features of the website. these cookies do not store any personal information."sv,
    "any cookies that may not be particularly necessary for the website to function and is used specifically "
    "to collect user personal data "
    "via analytics, ads, other embedded contents are termed as non-necessary cookies. it is mandatory to "
    "procure user consent prior to "
    "running these cookies on your website."sv,
    "if you continue to browse this site without changing your cookie settings, you agree to this use. acceptread more"sv};

// As document.split("\n\n").
std::vector<std::string_view> split_at_blank_lines(std::string_view text) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const std::size_t end = text.find("\n\n");
    pieces.push_back(text.substr(0, end));
    if (end == text.npos) return pieces;
    text.remove_prefix(end + 2);
  }
}

// Characters of addresses, as NeMo's pattern finds them.
std::int64_t url_characters(std::string_view text) {
  const auto is_url_byte = [](char c) {
    return is_ascii_alphanumeric(c) || "$-_@.&+/:=?#~!*(),"sv.find(c) != std::string_view::npos;
  };
  const auto is_hex = [](char c) {
    return is_ascii_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  };
  std::int64_t count = 0;
  for (std::size_t at = text.find("http"); at != text.npos; at = text.find("http", at)) {
    std::size_t p = at + 4;
    if (p < text.size() && text[p] == 's') ++p;
    if (!text.substr(p).starts_with("://")) {
      at += 4;
      continue;
    }
    const std::size_t begin = p += 3;
    for (;;) {
      if (p < text.size() && is_url_byte(text[p]))
        ++p;
      else if (p + 2 < text.size() && text[p] == '%' && is_hex(text[p + 1]) && is_hex(text[p + 2]))
        p += 3;
      else
        break;
    }
    if (p > begin) count += static_cast<std::int64_t>(p - at);
    at = std::max(p, at + 4);
  }
  return count;
}

// Share of the text that goes when the most frequent n-gram, the first of equally frequent ones, is deleted
// as a string; 1 where there are fewer words.
double top_ngram_ratio(std::string_view text, std::int64_t length, std::span<const SpaceWord> words,
                       std::size_t n) {
  if (words.size() < n) return 1;
  const std::size_t first = NgramCounts(words, n).most_frequent();
  std::string ngram;
  for (std::size_t k = 0; k < n; ++k) {
    if (k > 0) ngram += ' ';
    ngram += words[first + k].text;
  }
  std::int64_t deleted = 0;
  for (std::size_t at = text.find(ngram); at != text.npos; at = text.find(ngram, at + ngram.size()))
    ++deleted;
  return static_cast<double>(deleted * static_cast<std::int64_t>(count_characters(ngram))) /
         static_cast<double>(length);
}

double duplicate_ngram_ratio(std::int64_t length, std::span<const SpaceWord> words, std::size_t n) {
  if (words.size() < n) return 1;
  std::unordered_set<std::uint64_t> seen;
  seen.reserve(words.size());
  std::int64_t duplicated = 0;
  std::size_t overlapping = 0;  // words of the n-gram that were counted with one before
  for (std::size_t i = 0; i + n <= words.size(); ++i) {
    if (!seen.insert(ngram_key(words, i, n)).second) {
      for (std::size_t k = overlapping; k < n; ++k) duplicated += words[i + k].characters;
      duplicated += static_cast<std::int64_t>(std::min(n - overlapping, n - 1));
      overlapping = n;
    }
    overlapping -= overlapping > 0;
  }
  return static_cast<double>(duplicated) / static_cast<double>(length);
}

class NemoHeuristicsStage final : public Stage {
 public:
  explicit NemoHeuristicsStage(const NemoHeuristics& options) : o_(options) {
    for (std::size_t i = 0; i < o_.max_repeating_ngram_ratio.size(); ++i)
      top_names_.push_back(fmt::format("repeating_top_{}grams", i + 2));
    for (std::size_t i = 0; i < o_.max_repeating_duplicate_ngram_ratio.size(); ++i)
      duplicate_names_.push_back(fmt::format("repeating_dup_{}gram", i + 5));
  }

  void apply(Document&, Features& features, Verdict& verdict) const override {
    const std::string_view text = features.text();
    const std::vector<SpaceWord> words = split_at_white_space(text);
    // NeMo's filters divide by zero there.
    if (verdict.fails("empty", words.empty()) || words.empty()) return;
    if (characters_fail(features, words, verdict)) return;
    std::vector<Line> lines;
    for (const Line& line : features.lines())
      if (!strip_left(line.text).empty()) lines.push_back(line);
    if (paragraphs_fail(features, lines, verdict) || words_fail(words, lines, verdict)) return;
    const std::int64_t length = features.characters();
    for (std::size_t i = 0; i < top_names_.size(); ++i)
      if (verdict.above(top_names_[i], top_ngram_ratio(text, length, words, i + 2),
                        o_.max_repeating_ngram_ratio[i]))
        return;
    for (std::size_t i = 0; i < duplicate_names_.size(); ++i)
      if (verdict.above(duplicate_names_[i], duplicate_ngram_ratio(length, words, i + 5),
                        o_.max_repeating_duplicate_ngram_ratio[i]))
        return;
    std::int64_t bullets = 0;
    for (const Line& line : lines) {
      const std::string_view begin = strip_left(line.text);
      bullets += std::any_of(kBullets.begin(), kBullets.end(),
                             [&](std::string_view b) { return begin.starts_with(b); });
    }
    verdict.above("bullet_ratio", share(bullets, std::ssize(lines)), o_.max_bullet_lines_ratio);
  }

 private:
  static double share(std::int64_t part, std::int64_t whole) {
    return static_cast<double>(part) / static_cast<double>(whole);
  }

  bool characters_fail(Features& features, std::span<const SpaceWord> words, Verdict& verdict) const {
    const std::string_view text = features.text();
    const std::int64_t length = features.characters();
    std::int64_t plain = 0, digits = 0, spaces = 0, brackets = 0;
    for (const char *p = text.data(), *end = p + text.size(); p < end;) {
      const Character c = read_character(p);
      p += c.length;
      const char32_t v = c.value;
      plain += (v >= 'a' && v <= 'z') || (v >= 'A' && v <= 'Z') || (v >= '0' && v <= '9') || v == '\n' ||
               v == '?' || v == '!' || v == ',' || v == '.';
      digits += characters().has(v, kDecimal);
      spaces += v == '\t' || v == '\n' || v == '\r' || v == '\b' || v == ' ';
      brackets +=
          v == '{' || v == '}' || v == U'⟨' || v == U'⟩' || v == '[' || v == ']' || v == '(' || v == ')';
    }
    std::int64_t symbols = 0;
    for (const SpaceWord& word : words)
      symbols +=
          word.text == "#" || std::find(kEllipses.begin(), kEllipses.end(), word.text) != kEllipses.end();
    return verdict.above("alpha_numeric", share(length - plain, length),
                         o_.max_non_alpha_numeric_to_text_ratio) ||
           verdict.above("symbol_to_word", share(symbols, std::ssize(words)), o_.max_symbol_to_word_ratio) ||
           verdict.above("numbers_ratio", share(digits, length), o_.max_number_to_text_ratio) ||
           verdict.above("urls_ratio", share(url_characters(text), length), o_.max_url_to_text_ratio) ||
           verdict.above("white_space", share(spaces, length), o_.max_white_space_ratio) ||
           verdict.above("parentheses_ratio", share(brackets, length), o_.max_parentheses_ratio);
  }

  bool paragraphs_fail(Features& features, std::span<const Line> lines, Verdict& verdict) const {
    const auto paragraphs = split_at_blank_lines(features.text());
    std::vector<Line> pieces;
    std::int64_t boilerplate = 0, piece_characters = 0, line_characters = 0;
    bool lorem = false;
    std::string lower;
    for (const std::string_view paragraph : paragraphs) {
      pieces.push_back({paragraph, static_cast<std::uint32_t>(count_characters(paragraph))});
      piece_characters += pieces.back().characters;
      lower.clear();
      append_lower(strip(paragraph), lower);
      lorem = lorem || lower.find("lorem ipsum") != lower.npos;
      boilerplate += std::any_of(kBoilerplate.begin(), kBoilerplate.end(),
                                 [&](std::string_view b) { return lower.find(b) != lower.npos; });
    }
    for (const Line& line : lines) line_characters += line.characters;
    const Repeats of_lines = features.repeats(lines), of_pieces = features.repeats(pieces);
    return verdict.above("boilerplate_string_ratio", lorem ? 1 : share(boilerplate, std::ssize(pieces)),
                         o_.max_boilerplate_string_ratio) ||
           verdict.below("repeated_lines", share(std::ssize(lines) - of_lines.pieces, std::ssize(lines)),
                         o_.max_repeated_line_fraction) ||
           verdict.below("repeated_paragraphs",
                         share(std::ssize(pieces) - of_pieces.pieces, std::ssize(pieces)),
                         o_.max_repeated_paragraphs_ratio) ||
           verdict.below("repeated_lines_char", share(line_characters - of_lines.characters, line_characters),
                         o_.max_repeated_lines_char_ratio) ||
           verdict.below("repeated_paragraphs_char",
                         share(piece_characters - of_pieces.characters, piece_characters),
                         o_.max_repeated_paragraphs_char_ratio);
  }

  bool words_fail(std::span<const SpaceWord> words, std::span<const Line> lines, Verdict& verdict) const {
    std::int64_t letters = 0, common = 0, total = 0, longest = 0, unended = 0, ellipses = 0;
    for (const SpaceWord& word : words) {
      total += word.characters;
      longest = std::max<std::int64_t>(longest, word.characters);
      common += std::find(kCommonWords.begin(), kCommonWords.end(), word.text) != kCommonWords.end();
      for (const char *p = word.text.data(), *end = p + word.text.size(); p < end;) {
        const Character c = read_character(p);
        p += c.length;
        if (!characters().has(c.value, kAlphabeticProperty)) continue;
        ++letters;
        break;
      }
    }
    std::string lower;
    for (const Line& line : lines) {
      const std::string_view text = strip(line.text);
      unended += ".?!\"'"sv.find(text.back()) == std::string_view::npos;
      lower.clear();
      append_lower(text, lower);
      ellipses += std::any_of(kEllipses.begin(), kEllipses.end(),
                              [&](std::string_view e) { return lower.ends_with(e); });
    }
    const std::int64_t count = std::ssize(words);
    return verdict.below("word_count", static_cast<double>(count), static_cast<double>(o_.min_words)) ||
           verdict.above("word_count", static_cast<double>(count), static_cast<double>(o_.max_words)) ||
           verdict.above("punctuation", share(unended, std::ssize(lines)),
                         o_.max_num_sentences_without_endmark_ratio) ||
           verdict.below("words_without_alphabets", share(letters, count), o_.min_words_with_alphabets) ||
           verdict.below("common_english_words", static_cast<double>(common),
                         static_cast<double>(o_.min_num_common_words)) ||
           verdict.below("mean_word_length", share(total, count), o_.min_mean_word_length) ||
           verdict.above("mean_word_length", share(total, count), o_.max_mean_word_length) ||
           verdict.above("max_word_length", static_cast<double>(longest),
                         static_cast<double>(o_.max_word_length)) ||
           verdict.above("ellipsis", share(ellipses, std::ssize(lines)),
                         o_.max_num_lines_ending_with_ellipsis_ratio);
  }

  const NemoHeuristics o_;
  std::vector<std::string> top_names_, duplicate_names_;
};

}  // namespace

void declare(config::Section<NemoHeuristics>& s) {
  using N = NemoHeuristics;
  s.field("max_non_alpha_numeric_to_text_ratio", &N::max_non_alpha_numeric_to_text_ratio)
      .range(0, 1)
      .help(
          "Largest share of characters other than a-z, A-Z, 0-9, line ends and ? ! , . (blanks count); 0 "
          "switches a rule off.");
  s.field("max_symbol_to_word_ratio", &N::max_symbol_to_word_ratio)
      .range(0, 1)
      .help("Largest share of words that are # or an ellipsis.");
  s.field("max_number_to_text_ratio", &N::max_number_to_text_ratio)
      .range(0, 1)
      .help("Largest share of digits.");
  s.field("max_url_to_text_ratio", &N::max_url_to_text_ratio)
      .range(0, 1)
      .help("Largest share of characters in http addresses.");
  s.field("max_white_space_ratio", &N::max_white_space_ratio)
      .range(0, 1)
      .help("Largest share of blanks, tabs, line ends and backspaces.");
  s.field("max_parentheses_ratio", &N::max_parentheses_ratio).range(0, 1).help("Largest share of brackets.");
  s.field("max_boilerplate_string_ratio", &N::max_boilerplate_string_ratio)
      .range(0, 1)
      .help(
          "Largest share of paragraphs about cookies, privacy and terms of use; lorem ipsum is always too "
          "much.");
  s.field("max_repeated_line_fraction", &N::max_repeated_line_fraction)
      .range(0, 1)
      .help("Smallest share of lines that are left when copies go.");
  s.field("max_repeated_paragraphs_ratio", &N::max_repeated_paragraphs_ratio)
      .range(0, 1)
      .help("Smallest share of paragraphs that are left when copies go.");
  s.field("max_repeated_lines_char_ratio", &N::max_repeated_lines_char_ratio)
      .range(0, 1)
      .help("Smallest share of characters that are left when copies of lines go.");
  s.field("max_repeated_paragraphs_char_ratio", &N::max_repeated_paragraphs_char_ratio)
      .range(0, 1)
      .help("Smallest share of characters that are left when copies of paragraphs go.");
  s.field("min_words", &N::min_words).at_least(0).help("Fewest words.");
  s.field("max_words", &N::max_words).at_least(0).help("Most words.");
  s.field("max_num_sentences_without_endmark_ratio", &N::max_num_sentences_without_endmark_ratio)
      .range(0, 1)
      .help("Largest share of lines that do not end with . ? ! \" or '.");
  s.field("min_words_with_alphabets", &N::min_words_with_alphabets)
      .range(0, 1)
      .help("Smallest share of words with a letter.");
  s.field("min_num_common_words", &N::min_num_common_words)
      .at_least(0)
      .help("Fewest occurrences of the, be, to, of, and, that, have, with.");
  s.field("min_mean_word_length", &N::min_mean_word_length)
      .at_least(0)
      .unit("characters")
      .help("Smallest mean length of words.");
  s.field("max_mean_word_length", &N::max_mean_word_length)
      .at_least(0)
      .unit("characters")
      .help("Largest mean length of words.");
  s.field("max_word_length", &N::max_word_length).at_least(0).unit("characters").help("Longest word.");
  s.field("max_num_lines_ending_with_ellipsis_ratio", &N::max_num_lines_ending_with_ellipsis_ratio)
      .range(0, 1)
      .help("Largest share of lines that end with an ellipsis or \"read more\".");
  s.field("max_repeating_ngram_ratio", &N::max_repeating_ngram_ratio)
      .range(0, 1)
      .help("Largest shares of characters in the most frequent sequence of 2, 3, 4 … words.");
  s.field("max_repeating_duplicate_ngram_ratio", &N::max_repeating_duplicate_ngram_ratio)
      .range(0, 1)
      .help("Largest shares of characters in sequences of 5, 6, 7 … words that occurred before.");
  s.field("max_bullet_lines_ratio", &N::max_bullet_lines_ratio)
      .range(0, 1)
      .help("Largest share of lines that begin with a bullet.");
}

std::unique_ptr<Stage> make_stage(const NemoHeuristics& options) {
  return std::make_unique<NemoHeuristicsStage>(options);
}

}  // namespace stoa::curate
