#include "eval/metrics/text_scores.h"

#include <cmath>

#include "base/utf8.h"
#include "chat/value.h"
#include "eval/metrics/word_grams.h"
#include "eval/python/regex.h"
#include "eval/python/text.h"

namespace stoa::eval {
namespace {

std::vector<std::string> letters_without_space(const std::string& text) {
  std::vector<std::string> out;
  chat::Budget budget(std::int64_t{1} << 40);
  for (const std::string_view c : chat::characters(text, budget))
    if (leading_white_space(c) == 0) out.emplace_back(c);
  return out;
}

// One mark of ASCII punctuation at the end of a word, else at its beginning, is a word of its own.
std::vector<std::string> words_with_marks_apart(const std::string& text) {
  const auto is_mark = [](char c) { return kAsciiPunctuation.find(c) != std::string_view::npos; };
  std::vector<std::string> out;
  for (const std::string_view word : words_of(text)) {
    if (first_character(word).size() == word.size()) {
      out.emplace_back(word);
    } else if (is_mark(word.back())) {
      out.emplace_back(word.substr(0, word.size() - 1));
      out.emplace_back(word.substr(word.size() - 1));
    } else if (is_mark(word.front())) {
      out.emplace_back(word.substr(0, 1));
      out.emplace_back(word.substr(1));
    } else {
      out.emplace_back(word);
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> words_13a(const std::string& text) {
  static const RegexReplacements kMarksApart{{R"(([\{-\~\[-\` -\&\(-\+\:-\@\/]))", R"( \1 )"},
                                             {R"(([^0-9])([\.,]))", R"(\1 \2 )"},
                                             {R"(([\.,])([^0-9]))", R"( \1 \2)"},
                                             {R"(([0-9])(-))", R"(\1 \2 )"}};
  std::string line = replaced(text, "<skipped>", "");
  line = replaced(replaced(line, "-\n", ""), "\n", " ");
  if (line.find('&') != std::string::npos)
    for (const auto& [from, to] : std::vector<std::pair<const char*, const char*>>{
             {"&quot;", "\""}, {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}})
      line = replaced(line, from, to);
  line = kMarksApart(" " + line + " ");
  std::vector<std::string> out;
  for (const std::string_view word : words_of(line)) out.emplace_back(word);
  return out;
}

BleuCounts::BleuCounts(const std::vector<TextPair>& pairs) {
  for (const TextPair& pair : pairs) {
    const auto answer = words_13a(std::string(strip_right(pair.answer))),
               reference = words_13a(std::string(strip_right(pair.reference)));
    Counts c;
    c.answer_words = static_cast<std::int64_t>(answer.size());
    c.reference_words = static_cast<std::int64_t>(reference.size());
    for (std::size_t n = 1; n <= kOrder; ++n) {
      const Grams mine = grams(answer, n, " ");
      c.answer[n - 1] = total_of(mine);
      c.matches[n - 1] = count_common(mine, grams(reference, n, " "));
    }
    counts_.push_back(c);
  }
}

double BleuCounts::score(const std::vector<std::size_t>& drawn) const {
  Counts sum;
  for (const std::size_t d : drawn) {
    const Counts& c = counts_[d];
    for (std::size_t n = 0; n < kOrder; ++n) sum.matches[n] += c.matches[n], sum.answer[n] += c.answer[n];
    sum.answer_words += c.answer_words;
    sum.reference_words += c.reference_words;
  }
  if (sum.answer_words == 0 || sum.matches[0] == 0) return 0;
  double logarithms = 0, smooth = 1;
  for (std::size_t n = 0; n < kOrder; ++n) {
    if (sum.answer[n] == 0) return 0;
    double precision = 100.0 * static_cast<double>(sum.matches[n]) / static_cast<double>(sum.answer[n]);
    if (sum.matches[n] == 0) {
      smooth *= 2;
      precision = 100.0 / (smooth * static_cast<double>(sum.answer[n]));
    }
    logarithms += std::log(precision);
  }
  const double brevity =
      sum.answer_words < sum.reference_words
          ? std::exp(1.0 - static_cast<double>(sum.reference_words) / static_cast<double>(sum.answer_words))
          : 1.0;
  return brevity * std::exp(logarithms / static_cast<double>(kOrder));
}

ChrfCounts::ChrfCounts(const std::vector<TextPair>& pairs, std::size_t words) {
  for (const TextPair& pair : pairs) {
    Counts c;
    const auto count = [&](const std::vector<std::string>& answer, const std::vector<std::string>& reference,
                           std::size_t n, const char* between, std::size_t at) {
      const Grams mine = grams(answer, n, between), theirs = grams(reference, n, between);
      c.reference[at] = total_of(theirs);
      // Without n-grams of the reference, those of the answer do not count either.
      c.answer[at] = c.reference[at] > 0 ? total_of(mine) : 0;
      c.matches[at] = count_common(mine, theirs);
    };
    const auto answer = letters_without_space(pair.answer), reference = letters_without_space(pair.reference);
    for (std::size_t n = 1; n <= kCharacters; ++n) count(answer, reference, n, "", n - 1);
    const auto my_words = words_with_marks_apart(pair.answer),
               their_words = words_with_marks_apart(pair.reference);
    for (std::size_t n = 1; n <= words; ++n) count(my_words, their_words, n, " ", kCharacters + n - 1);
    counts_.push_back(c);
  }
}

double ChrfCounts::score(const std::vector<std::size_t>& drawn) const {
  Counts sum;
  for (const std::size_t d : drawn)
    for (std::size_t n = 0; n < kOrder; ++n) {
      sum.matches[n] += counts_[d].matches[n];
      sum.answer[n] += counts_[d].answer[n];
      sum.reference[n] += counts_[d].reference[n];
    }
  // Precision and recall are averaged over the orders that both texts have.
  constexpr double kBetaSquared = 4;
  double precision = 0, recall = 0;
  int orders = 0;
  for (std::size_t n = 0; n < kOrder; ++n) {
    if (sum.answer[n] == 0 || sum.reference[n] == 0) continue;
    precision += static_cast<double>(sum.matches[n]) / static_cast<double>(sum.answer[n]);
    recall += static_cast<double>(sum.matches[n]) / static_cast<double>(sum.reference[n]);
    ++orders;
  }
  if (precision + recall == 0) return 0;
  precision /= orders;
  recall /= orders;
  return 100 * (1 + kBetaSquared) * precision * recall / (kBetaSquared * precision + recall);
}

}  // namespace stoa::eval
