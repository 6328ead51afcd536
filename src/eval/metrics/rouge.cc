#include "eval/metrics/rouge.h"

#include <algorithm>
#include <cstdint>

#include "eval/metrics/porter_stemmer.h"
#include "eval/metrics/word_grams.h"
#include "eval/python/text.h"

namespace stoa::eval {
namespace {

using Words = std::vector<std::string>;

double f_measure(double precision, double recall) {
  return precision + recall > 0 ? 2 * precision * recall / (precision + recall) : 0.0;
}

double ratio(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(whole, 1));
}

// [i][j]: length of the longest common subsequence of the first i words and the first j.
std::vector<std::vector<std::int64_t>> common_lengths(const Words& a, const Words& b) {
  std::vector<std::vector<std::int64_t>> table(a.size() + 1, std::vector<std::int64_t>(b.size() + 1));
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j)
      table[i][j] =
          a[i - 1] == b[j - 1] ? table[i - 1][j - 1] + 1 : std::max(table[i - 1][j], table[i][j - 1]);
  return table;
}

}  // namespace

std::vector<std::string> rouge_words(const std::string& text, bool stem) {
  Words out;
  std::string word;
  const auto end_word = [&] {
    if (stem && word.size() > 3) word = porter_stem(word);
    if (!word.empty()) out.push_back(word);
    word.clear();
  };
  for (const char c : lowered(text)) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
      word += c;
    else
      end_word();
  }
  end_word();
  return out;
}

double rouge_n(const Words& reference, const Words& answer, std::size_t n) {
  const Grams mine = grams(answer, n, " "), theirs = grams(reference, n, " ");
  const std::int64_t same = count_common(mine, theirs);
  return f_measure(ratio(same, total_of(mine)), ratio(same, total_of(theirs)));
}

double rouge_l(const Words& reference, const Words& answer) {
  if (reference.empty() || answer.empty()) return 0;
  const std::int64_t same = common_lengths(reference, answer).back().back();
  return f_measure(ratio(same, std::ssize(answer)), ratio(same, std::ssize(reference)));
}

}  // namespace stoa::eval
