#include "curate/filters/rpv2.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "curate/filters/word_list.h"
#include "curate/text/character.h"
#include "curate/text/space_words.h"

namespace stoa::curate {
namespace {

using namespace std::string_view_literals;

constexpr std::array kBulletPoints = {"•"sv, "‣"sv, "▶"sv, "◀"sv, "◦"sv, "■"sv, "□"sv, "▪"sv, "▫"sv, "–"sv};
constexpr std::array kTerminalMarks = {"."sv, "!"sv, "?"sv, "”"sv};
constexpr std::array kEllipsisMarks = {"..."sv, "…"sv};

// As round(value, 8).
double rounded(double value) { return std::strtod(fmt::format("{:.8f}", value).c_str(), nullptr); }

double quotient(std::int64_t part, std::size_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

std::string decomposed(const std::string& text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }))
    return text;
  utf8proc_uint8_t* made = nullptr;
  const auto bytes = ::utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                    static_cast<utf8proc_ssize_t>(text.size()), &made,
                                    static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE));
  require<DataError>(bytes >= 0, "its text cannot be decomposed: {}", ::utf8proc_errmsg(bytes));
  std::string out(reinterpret_cast<const char*>(made), static_cast<std::size_t>(bytes));
  std::free(made);
  return out;
}

// Without ASCII punctuation, in lower case, white space as one blank, none at the ends, decomposed.
std::string normalized(std::string_view text) {
  std::string plain, lower, out;
  for (const char c : text)
    if (static_cast<unsigned char>(c) >= 0x80 || !std::ispunct(static_cast<unsigned char>(c))) plain += c;
  append_lower(plain, lower);
  for (const SpaceWord& word : split_at_white_space(lower)) {
    if (!out.empty()) out += ' ';
    out += word.text;
  }
  return decomposed(out);
}

// As the pattern \w+|[^\w\s]+.
std::vector<std::string_view> split_at_punctuation(std::string_view text) {
  std::vector<std::string_view> words;
  const auto kind_of = [](char32_t c) {
    const std::uint32_t classes = characters().classes(c);
    return classes & kWord ? 1 : classes & kSpace ? 0 : 2;
  };
  for (const char *p = text.data(), *end = p + text.size(); p < end;) {
    const char* const begin = p;
    const int kind = kind_of(read_character(p).value);
    while (p < end) {
      const Character c = read_character(p);
      if (kind_of(c.value) != kind) break;
      p += c.length;
    }
    if (kind != 0) words.emplace_back(begin, static_cast<std::size_t>(p - begin));
  }
  return words;
}

// Matches of \b[^.!?]+[.!?]*.
std::int64_t count_sentence_pieces(std::string_view text) {
  std::int64_t count = 0;
  bool word_before = false, inside = false, after_marks = false;
  for (const char *p = text.data(), *end = p + text.size(); p < end;) {
    const Character c = read_character(p);
    p += c.length;
    const bool is_word = characters().has(c.value, kWord);
    const bool mark = c.value == '.' || c.value == '!' || c.value == '?';
    if (inside && after_marks && !mark) inside = false;
    if (inside) {
      after_marks = mark;
    } else if (!mark && is_word != word_before) {
      ++count;
      inside = true;
      after_marks = false;
    }
    word_before = is_word;
  }
  return count;
}

template <class Marks>
bool ends_with_any(std::string_view text, const Marks& marks) {
  return std::any_of(marks.begin(), marks.end(), [&](std::string_view m) { return text.ends_with(m); });
}

bool is_all_capitals(std::string_view word) {
  bool any = false;
  for (const char *p = word.data(), *end = p + word.size(); p < end;) {
    const Character c = read_character(p);
    p += c.length;
    const std::uint32_t classes = characters().classes(c);
    if (classes & kNoCapital) return false;
    any = any || (classes & kCapital) != 0;
  }
  return any;
}

std::int64_t count_of_class(std::string_view text, std::uint32_t any) {
  std::int64_t count = 0;
  for (const char *p = text.data(), *end = p + text.size(); p < end;) {
    const Character c = read_character(p);
    p += c.length;
    count += characters().has(c.value, any);
  }
  return count;
}

// Lines with their line ends, as ([^\n]*\n|[^\n]+$).
std::vector<std::string_view> lines_with_ends(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return lines;
}

class RedPajamaStage final : public Stage {
 public:
  explicit RedPajamaStage(const RedPajamaSignals& options) : o_(options) {
    require<ConfigError>(o_.min_stop_word_fraction == 0 || !o_.stop_words.empty(),
                         "min_stop_word_fraction needs a list of words: stop_words");
    require<ConfigError>(o_.max_ldnoobw_words == 0 || !o_.bad_words.empty(),
                         "max_ldnoobw_words needs a list of words: bad_words");
    if (!o_.stop_words.empty()) stop_words_.emplace(o_.stop_words);
    if (!o_.bad_words.empty()) bad_words_.emplace(o_.bad_words);
  }

  void apply(Document&, Features& features, Verdict& verdict) const override {
    const std::string content = normalized(features.text());
    const std::vector<SpaceWord> words = split_at_white_space(content);
    const auto raw = split_at_punctuation(features.text());
    const bool nothing = words.empty() || raw.empty();
    if (verdict.fails("empty", nothing) || nothing) return;
    const auto lines = lines_with_ends(features.text());
    if (!language_fails(features, words, raw, lines, verdict) && !repetitions_fail(words, verdict) &&
        !content_fails(features, content, words, raw, verdict))
      lines_fail(lines, verdict);
  }

 private:
  bool language_fails(Features& features, std::span<const SpaceWord> words,
                      std::span<const std::string_view> raw, std::span<const std::string_view> lines,
                      Verdict& verdict) const {
    std::int64_t length = 0, symbols = 0, open_ends = 0, with_letter = 0, capitals = 0;
    for (const SpaceWord& word : words) length += word.characters;
    const std::string_view text = features.text();
    for (const std::string_view symbol : {"#"sv, "..."sv, "…"sv})
      for (std::size_t at = text.find(symbol); at != text.npos; at = text.find(symbol, at + symbol.size()))
        ++symbols;
    for (const std::string_view line : lines) open_ends += ends_with_any(strip_right(line), kEllipsisMarks);
    for (const std::string_view word : raw) {
      with_letter += std::any_of(word.begin(), word.end(),
                                 [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
      capitals += is_all_capitals(word);
    }
    const NgramCounts counts(words, 1);
    std::int64_t distinct = 0;
    double entropy = 0;
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (!counts.is_first(i)) continue;
      ++distinct;
      const double share = static_cast<double>(counts.count_at(i)) / static_cast<double>(words.size());
      entropy += -share * std::log(share);
    }
    const double count = static_cast<double>(words.size());
    const double mean = rounded(static_cast<double>(length) / count);
    return verdict.below("rps_doc_word_count", count, static_cast<double>(o_.min_word_count)) ||
           verdict.above("rps_doc_word_count", count, static_cast<double>(o_.max_word_count)) ||
           verdict.below("rps_doc_mean_word_length", mean, o_.min_mean_word_length) ||
           verdict.above("rps_doc_mean_word_length", mean, o_.max_mean_word_length) ||
           verdict.above("rps_doc_symbol_to_word_ratio", rounded(quotient(symbols, raw.size())),
                         o_.max_symbol_to_word_ratio) ||
           verdict.above("rps_doc_frac_lines_end_with_ellipsis", rounded(quotient(open_ends, lines.size())),
                         o_.max_frac_lines_end_with_ellipsis) ||
           verdict.above("rps_doc_frac_no_alph_words", rounded(1.0 - quotient(with_letter, raw.size())),
                         o_.max_frac_no_alph_words) ||
           verdict.below("rps_doc_num_sentences", static_cast<double>(count_sentence_pieces(text)),
                         static_cast<double>(o_.min_num_sentences)) ||
           verdict.below("rps_doc_frac_unique_words", rounded(quotient(distinct, words.size())),
                         o_.min_frac_unique_words) ||
           verdict.below("rps_doc_unigram_entropy", rounded(entropy), o_.min_unigram_entropy) ||
           verdict.above("rps_doc_frac_all_caps_words", rounded(quotient(capitals, raw.size())),
                         o_.max_frac_all_caps_words);
  }

  bool repetitions_fail(std::span<const SpaceWord> words, Verdict& verdict) const {
    std::int64_t length = 0;
    for (const SpaceWord& word : words) length += word.characters;
    const auto share = [&](std::int64_t part) {
      return rounded(static_cast<double>(part) / static_cast<double>(length));
    };
    for (std::size_t i = 0; i < o_.max_frac_chars_top_gram.size(); ++i) {
      const NgramCounts ngrams(words, i + 2);
      const double value =
          ngrams.most() > 1 ? share(ngrams.characters(ngrams.most_frequent()) * ngrams.most()) : 0;
      if (verdict.above(fmt::format("rps_doc_frac_chars_top_{}gram", i + 2), value,
                        o_.max_frac_chars_top_gram[i]))
        return true;
    }
    for (std::size_t i = 0; i < o_.max_frac_chars_dupe_grams.size(); ++i) {
      const std::int64_t repeated = NgramCounts(words, i + 5).characters_in_repeated();
      if (verdict.above(fmt::format("rps_doc_frac_chars_dupe_{}grams", i + 5), share(repeated),
                        o_.max_frac_chars_dupe_grams[i]))
        return true;
    }
    return false;
  }

  bool content_fails(Features& features, const std::string& content, std::span<const SpaceWord> words,
                     std::span<const std::string_view> raw, Verdict& verdict) const {
    constexpr std::string_view kLorem = "lorem ipsum";
    std::int64_t lorem = 0;
    for (std::size_t at = content.find(kLorem); at != content.npos;
         at = content.find(kLorem, at + kLorem.size()))
      ++lorem;
    const std::string_view text = features.text();
    const std::int64_t brackets =
        std::count(text.begin(), text.end(), '{') + std::count(text.begin(), text.end(), '}');
    if (verdict.above("rps_doc_lorem_ipsum", rounded(quotient(lorem, count_characters(content))),
                      o_.max_lorem_ipsum) ||
        verdict.above("rps_doc_curly_bracket",
                      rounded(quotient(brackets, static_cast<std::size_t>(features.characters()))),
                      o_.max_curly_bracket))
      return true;
    if (stop_words_) {
      std::int64_t stops = 0;
      for (const std::string_view word : raw) stops += stop_words_->words().contains(std::string(word));
      if (verdict.below("rps_doc_stop_word_fraction", rounded(quotient(stops, raw.size())),
                        o_.min_stop_word_fraction))
        return true;
    }
    return bad_words_ && verdict.above("rps_doc_ldnoobw_words", static_cast<double>(bad_entries(words)),
                                       o_.max_ldnoobw_words);
  }

  std::int64_t bad_entries(std::span<const SpaceWord> words) const {
    std::int64_t found = 0;
    for (const SpaceWord& word : words) found += bad_words_->words().contains(std::string(word.text));
    std::string all = " ";
    for (const SpaceWord& word : words) all.append(word.text).append(" ");
    for (const std::string& phrase : bad_words_->phrases()) {
      const std::string wanted = " " + phrase + " ";
      for (std::size_t at = all.find(wanted); at != all.npos; at = all.find(wanted, at + 1)) ++found;
    }
    return found;
  }

  void lines_fail(std::span<const std::string_view> lines, Verdict& verdict) const {
    std::int64_t ended = 0, javascript = 0, words = 0, bullets = 0;
    double capitals = 0, numeric = 0;
    for (const std::string_view line : lines) {
      const std::string plain = normalized(line);
      const auto own = split_at_white_space(plain);
      ended += ends_with_any(strip_right(line), kTerminalMarks);
      words += std::ssize(own);
      for (const SpaceWord& word : own) javascript += word.text == "javascript";
      capitals += quotient(count_of_class(line, kCapital), count_characters(line));
      if (!plain.empty()) numeric += quotient(count_of_class(plain, kNumeric), count_characters(plain));
      const std::string_view begin = strip_left(line);
      bullets += std::any_of(kBulletPoints.begin(), kBulletPoints.end(),
                             [&](std::string_view b) { return begin.starts_with(b); });
    }
    const auto count = static_cast<double>(lines.size());
    static_cast<void>(
        verdict.below("rps_lines_ending_with_terminal_punctution_mark", static_cast<double>(ended) / count,
                      o_.min_lines_ending_with_terminal_punctution_mark) ||
        verdict.above("rps_lines_javascript_counts", static_cast<double>(javascript) / count,
                      o_.max_lines_javascript_counts) ||
        verdict.below("rps_lines_num_words", static_cast<double>(words) / count, o_.min_lines_num_words) ||
        verdict.above("rps_lines_uppercase_letter_fraction", capitals / count,
                      o_.max_lines_uppercase_letter_fraction) ||
        verdict.above("rps_lines_numerical_chars_fraction", numeric / count,
                      o_.max_lines_numerical_chars_fraction) ||
        verdict.above("rps_lines_start_with_bulletpoint", static_cast<double>(bullets) / count,
                      o_.max_lines_start_with_bulletpoint));
  }

  const RedPajamaSignals o_;
  std::optional<WordList> stop_words_, bad_words_;
};

}  // namespace

void declare(config::Section<RedPajamaSignals>& s) {
  using O = RedPajamaSignals;
  s.field("min_word_count", &O::min_word_count)
      .at_least(0)
      .help("Fewest words, of the text without punctuation; 0 switches a rule off.");
  s.field("max_word_count", &O::max_word_count).at_least(0).help("Most words.");
  s.field("min_mean_word_length", &O::min_mean_word_length)
      .at_least(0)
      .unit("characters")
      .help("Smallest mean length of words.");
  s.field("max_mean_word_length", &O::max_mean_word_length)
      .at_least(0)
      .unit("characters")
      .help("Largest mean length of words.");
  s.field("max_symbol_to_word_ratio", &O::max_symbol_to_word_ratio)
      .at_least(0)
      .help("Most #, ... and … per word, punctuation counted as words.");
  s.field("max_frac_lines_end_with_ellipsis", &O::max_frac_lines_end_with_ellipsis)
      .range(0, 1)
      .help("Largest share of lines that end with an ellipsis.");
  s.field("max_frac_no_alph_words", &O::max_frac_no_alph_words)
      .range(0, 1)
      .help("Largest share of words without a letter a-z.");
  s.field("min_num_sentences", &O::min_num_sentences).at_least(0).help("Fewest sentences.");
  s.field("min_frac_unique_words", &O::min_frac_unique_words)
      .range(0, 1)
      .help("Smallest number of different words per word.");
  s.field("min_unigram_entropy", &O::min_unigram_entropy)
      .at_least(0)
      .unit("nats")
      .help("Smallest entropy of the words.");
  s.field("max_frac_all_caps_words", &O::max_frac_all_caps_words)
      .range(0, 1)
      .help("Largest share of words in capitals.");
  s.field("max_frac_chars_top_gram", &O::max_frac_chars_top_gram)
      .range(0, 100)
      .help("Largest shares of characters in the most frequent sequence of 2, 3, 4 … words.");
  s.field("max_frac_chars_dupe_grams", &O::max_frac_chars_dupe_grams)
      .range(0, 1)
      .help("Largest shares of characters in sequences of 5, 6, 7 … words that occur more than once.");
  s.field("max_lorem_ipsum", &O::max_lorem_ipsum).range(0, 1).help("Most \"lorem ipsum\" per character.");
  s.field("max_curly_bracket", &O::max_curly_bracket).range(0, 1).help("Most { and } per character.");
  s.field("stop_words", &O::stop_words).help("File of stop words, one a line.");
  s.field("min_stop_word_fraction", &O::min_stop_word_fraction)
      .range(0, 1)
      .help("Smallest share of words in stop_words.");
  s.field("bad_words", &O::bad_words).help("File of words and phrases (LDNOOBW), one a line.");
  s.field("max_ldnoobw_words", &O::max_ldnoobw_words).at_least(0).help("Most occurrences of bad_words.");
  s.field("min_lines_ending_with_terminal_punctution_mark",
          &O::min_lines_ending_with_terminal_punctution_mark)
      .range(0, 1)
      .help("Smallest share of lines that end with . ! ? or ”.");
  s.field("max_lines_javascript_counts", &O::max_lines_javascript_counts)
      .at_least(0)
      .help("Most occurrences of the word javascript per line.");
  s.field("min_lines_num_words", &O::min_lines_num_words).at_least(0).help("Fewest words per line.");
  s.field("max_lines_uppercase_letter_fraction", &O::max_lines_uppercase_letter_fraction)
      .range(0, 1)
      .help("Largest share of capitals in a line, on average.");
  s.field("max_lines_numerical_chars_fraction", &O::max_lines_numerical_chars_fraction)
      .range(0, 1)
      .help("Largest share of digits in a line, on average.");
  s.field("max_lines_start_with_bulletpoint", &O::max_lines_start_with_bulletpoint)
      .range(0, 1)
      .help("Largest share of lines that begin with a bullet.");
}

std::unique_ptr<Stage> make_stage(const RedPajamaSignals& options) {
  return std::make_unique<RedPajamaStage>(options);
}

}  // namespace stoa::curate
