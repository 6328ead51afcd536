// BLEU and chrF of a corpus, as sacrebleu computes them by default (BLEU: tokenizer 13a, exponential
// smoothing; chrF: characters up to 6, beta 2; chrF++: also words up to 2), with one reference per answer.
// Papineni et al. 2002; Popović 2015 and 2017; Post 2018.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace stoa::eval {

struct TextPair {
  std::string reference, answer;
};

class BleuCounts {
 public:
  explicit BleuCounts(const std::vector<TextPair>& pairs);
  double score(const std::vector<std::size_t>& drawn) const;  // 0 to 100

 private:
  static constexpr std::size_t kOrder = 4;
  struct Counts {
    std::array<std::int64_t, kOrder> matches{}, answer{};
    std::int64_t answer_words = 0, reference_words = 0;
  };
  std::vector<Counts> counts_;
};

class ChrfCounts {
 public:
  // `words`: n-grams of words up to this length count too; at most 2.
  explicit ChrfCounts(const std::vector<TextPair>& pairs, std::size_t words = 0);
  double score(const std::vector<std::size_t>& drawn) const;  // 0 to 100

 private:
  static constexpr std::size_t kCharacters = 6, kOrder = kCharacters + 2;
  struct Counts {
    std::array<std::int64_t, kOrder> matches{}, answer{}, reference{};
  };
  std::vector<Counts> counts_;
};

// Words of a text as mteval-v13a.pl cuts them.
std::vector<std::string> words_13a(const std::string& text);

}  // namespace stoa::eval
