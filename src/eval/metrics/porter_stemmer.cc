#include "eval/metrics/porter_stemmer.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

namespace stoa::eval {
namespace {

// Whether each letter is a consonant; y is one at the beginning and after a vowel.
std::vector<bool> consonants(std::string_view word) {
  std::vector<bool> out;
  for (std::size_t i = 0; i < word.size(); ++i)
    out.push_back(word[i] == 'y' ? i == 0 || !out[i - 1]
                                 : std::string_view("aeiou").find(word[i]) == std::string_view::npos);
  return out;
}

// Porter's m: how often a vowel is followed by a consonant.
int measure(std::string_view stem) {
  const auto flags = consonants(stem);
  int out = 0;
  for (std::size_t i = 1; i < flags.size(); ++i) out += !flags[i - 1] && flags[i];
  return out;
}

bool has_vowel(std::string_view stem) {
  const auto flags = consonants(stem);
  return std::find(flags.begin(), flags.end(), false) != flags.end();
}

bool ends_in_double_consonant(std::string_view word) {
  const std::size_t n = word.size();
  return n >= 2 && word[n - 1] == word[n - 2] && consonants(word).back();
}

// Consonant, vowel, consonant other than w, x and y; of two letters vowel and consonant.
bool ends_in_short_syllable(std::string_view word) {
  const auto c = consonants(word);
  const std::size_t n = word.size();
  if (n == 2) return !c[0] && c[1];
  return n >= 3 && c[n - 3] && !c[n - 2] && c[n - 1] &&
         std::string_view("wxy").find(word[n - 1]) == std::string_view::npos;
}

struct SuffixRule {
  const char *suffix, *with;
};

// The first rule whose suffix the word has is the only one that is tried: it needs a stem of measure above
// `least`.
std::string by_rules(const std::string& word, const std::vector<SuffixRule>& rules, int least) {
  for (const auto& [suffix, with] : rules)
    if (word.ends_with(suffix)) {
      const std::string stem = word.substr(0, word.size() - std::string_view(suffix).size());
      return measure(stem) > least ? stem + with : word;
    }
  return word;
}

std::string without_last(const std::string& word, std::size_t letters) {
  return word.substr(0, word.size() - letters);
}

std::string plurals(const std::string& word) {
  if (word.ends_with("ies")) return without_last(word, word.size() == 4 ? 1 : 2);
  if (word.ends_with("sses")) return without_last(word, 2);
  return word.ends_with("s") && !word.ends_with("ss") ? without_last(word, 1) : word;
}

std::string past_and_progressive(const std::string& word) {
  if (word.ends_with("ied")) return without_last(word, word.size() == 4 ? 1 : 2);
  if (word.ends_with("eed")) return measure(without_last(word, 3)) > 0 ? without_last(word, 1) : word;
  std::string stem;
  if (word.ends_with("ed") && has_vowel(without_last(word, 2)))
    stem = without_last(word, 2);
  else if (word.ends_with("ing") && has_vowel(without_last(word, 3)))
    stem = without_last(word, 3);
  else
    return word;
  if (stem.ends_with("at") || stem.ends_with("bl") || stem.ends_with("iz")) return stem + "e";
  if (ends_in_double_consonant(stem))
    return std::string_view("lsz").find(stem.back()) == std::string_view::npos ? without_last(stem, 1) : stem;
  return measure(stem) == 1 && ends_in_short_syllable(stem) ? stem + "e" : stem;
}

std::string y_to_i(const std::string& word) {
  if (!word.ends_with("y")) return word;
  const std::string stem = without_last(word, 1);
  return stem.size() > 1 && consonants(stem).back() ? stem + "i" : word;
}

std::string double_suffixes(const std::string& word) {
  static const std::vector<SuffixRule> kRules{
      {"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"}, {"anci", "ance"}, {"izer", "ize"},
      {"bli", "ble"},     {"alli", "al"},     {"entli", "ent"}, {"eli", "e"},     {"ousli", "ous"},
      {"ization", "ize"}, {"ation", "ate"},   {"ator", "ate"},  {"alism", "al"},  {"iveness", "ive"},
      {"fulness", "ful"}, {"ousness", "ous"}, {"aliti", "al"},  {"iviti", "ive"}, {"biliti", "ble"},
      {"fulli", "ful"}};
  if (word.ends_with("alli") && measure(without_last(word, 4)) > 0)
    return double_suffixes(without_last(word, 2));
  if (word.ends_with("logi")) return measure(without_last(word, 3)) > 0 ? without_last(word, 1) : word;
  return by_rules(word, kRules, 0);
}

std::string further_suffixes(const std::string& word) {
  static const std::vector<SuffixRule> kRules{{"icate", "ic"}, {"ative", ""},  {"alize", "al"},
                                              {"iciti", "ic"}, {"ical", "ic"}, {"ful", ""},
                                              {"ness", ""}};
  return by_rules(word, kRules, 0);
}

std::string last_suffixes(const std::string& word) {
  static const std::vector<SuffixRule> kRules{
      {"al", ""},   {"ance", ""}, {"ence", ""},  {"er", ""},   {"ic", ""},  {"able", ""},
      {"ible", ""}, {"ant", ""},  {"ement", ""}, {"ment", ""}, {"ent", ""}, {"ou", ""},
      {"ism", ""},  {"ate", ""},  {"iti", ""},   {"ous", ""},  {"ive", ""}, {"ize", ""}};
  if (word.ends_with("ion")) {
    const std::string stem = without_last(word, 3);
    return measure(stem) > 1 && (stem.back() == 's' || stem.back() == 't') ? stem : word;
  }
  return by_rules(word, kRules, 1);
}

std::string final_letters(const std::string& word) {
  std::string out = word;
  if (word.ends_with("e")) {
    const std::string stem = without_last(word, 1);
    if (measure(stem) > 1 || (measure(stem) == 1 && !ends_in_short_syllable(stem))) out = stem;
  }
  return out.ends_with("ll") && measure(without_last(out, 1)) > 1 ? without_last(out, 1) : out;
}

}  // namespace

std::string porter_stem(const std::string& word) {
  static const std::map<std::string, std::string> kIrregular{
      {"skies", "sky"},      {"sky", "sky"},         {"dying", "die"},        {"lying", "lie"},
      {"tying", "tie"},      {"news", "news"},       {"innings", "inning"},   {"inning", "inning"},
      {"outings", "outing"}, {"outing", "outing"},   {"cannings", "canning"}, {"canning", "canning"},
      {"howe", "howe"},      {"proceed", "proceed"}, {"exceed", "exceed"},    {"succeed", "succeed"}};
  if (const auto it = kIrregular.find(word); it != kIrregular.end()) return it->second;
  if (word.size() <= 2) return word;
  return final_letters(
      last_suffixes(further_suffixes(double_suffixes(y_to_i(past_and_progressive(plurals(word)))))));
}

}  // namespace stoa::eval
