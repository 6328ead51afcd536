// ROUGE of a text against a reference, as rouge_score 0.1.2 computes it (Lin 2004).
#pragma once

#include <string>
#include <vector>

namespace stoa::eval {

// Lower-case runs of ASCII letters and digits; those of more than three are stemmed if `stem`.
std::vector<std::string> rouge_words(const std::string& text, bool stem);
// F of common n-grams, n >= 1.
double rouge_n(const std::vector<std::string>& reference, const std::vector<std::string>& answer,
               std::size_t n);
// F of the longest common subsequence.
double rouge_l(const std::vector<std::string>& reference, const std::vector<std::string>& answer);

}  // namespace stoa::eval
