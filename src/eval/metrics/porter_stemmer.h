// Stems of English words for ROUGE: Porter 1980 with the changes that NLTK's stemmer makes by default, which
// rouge_score uses.
#pragma once

#include <string>

namespace stoa::eval {

// `word`: lower-case letters of ASCII and digits.
std::string porter_stem(const std::string& word);

}  // namespace stoa::eval
