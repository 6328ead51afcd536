// Words to be counted: the ten most common of a list, and the three most frequent of a coded text.
#include <algorithm>
#include <cmath>
#include <set>

#include "eval/ruler/making.h"

namespace stoa::eval {
namespace {

constexpr std::uint64_t kSeedOfLists = 42;
constexpr std::string_view kListTemplate =
    "Below is a numbered list of words. In these words, some appear more often than others. Memorize the "
    "ones "
    "that appear most often.\n{context}\nQuestion: What are the 10 most common words in the above list?";
constexpr std::string_view kListBeginning =
    " Answer: The top 10 words that appear most often in the list are:";
constexpr std::string_view kCodeTemplate =
    "Read the following coded text and track the frequency of each coded word. Find the three most "
    "frequently "
    "appeared coded words. {context}\nQuestion: Do not provide any explanation. Please ignore the dots "
    "'....'. What are the three most frequently appeared words in the above coded text?";
constexpr std::string_view kCodeBeginning =
    " Answer: According to the coded text above, the three most frequently appeared words are:";

std::string numbered(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i)
    out += (i == 0 ? "" : " ") + std::to_string(i + 1) + ". " + words[i];
  return out;
}

class WordLists {
 public:
  explicit WordLists(Making& making)
      : making_(making), order_(kSeedOfLists), words_(making.words({"nouns", "adjectives", "verbs"})) {
    order_.shuffle(words_);
  }

  std::vector<Json> of_length(std::int64_t longest) {
    constexpr std::int64_t kTokensOfWords = 120, kStep = 10;
    const auto all = std::ssize(words_);
    std::int64_t count = kStep;
    for (std::int64_t total = 0; total + kTokensOfWords < longest;) {
      const Lists lists = make(count, longest);
      total = making_.tokens(lists.example + "\n" + lists.input + " " + numbered(lists.common));
      if (total + kTokensOfWords > longest) {
        count -= kStep;
        break;
      }
      count += kStep;
      if (count > all) {
        count = all;
        break;
      }
    }
    if (count < kStep) Making::too_short("lists of words", longest);
    std::vector<Json> out;
    for (std::int64_t index = 0; index < making_.samples(); ++index)
      for (std::int64_t used = count, tries = 0;; ++tries) {
        if (tries > count) Making::too_short("a list of words", longest);
        const Lists lists = make(used, longest);
        const std::int64_t length = making_.tokens(lists.input) + kTokensOfWords;
        if (length > longest) {
          if (used > kStep) used -= kStep;
          continue;
        }
        const std::string asked = lists.input.substr(0, lists.input.rfind(kListBeginning));
        Json document = Making::document(index, std::string(strip(asked)), Json(lists.common), length,
                                         longest, std::string(strip(kListBeginning)));
        out.push_back({{"index", index},
                       {"input", document["input"]},
                       {"input_example", lists.example},
                       {"outputs", document["outputs"]},
                       {"length", length},
                       {"max_length", longest},
                       {"gen_prefix", document["gen_prefix"]}});
        break;
      }
    return out;
  }

 private:
  struct Lists {
    std::string example, input;
    std::vector<std::string> common;
  };
  struct Example {
    std::string context;
    std::vector<std::string> common;
  };

  Example example_of(std::int64_t count, int common_times, int uncommon_times) {
    constexpr std::size_t kCommon = 10;
    Example out;
    std::vector<std::string> drawn, list;
    for (const std::size_t i : making_.python.sample(words_.size(), static_cast<std::size_t>(count)))
      drawn.push_back(words_[i]);
    const std::size_t common = std::min(kCommon, drawn.size());
    out.common.assign(drawn.begin(), drawn.begin() + static_cast<std::ptrdiff_t>(common));
    for (int i = 0; i < common_times; ++i) list.insert(list.end(), out.common.begin(), out.common.end());
    for (int i = 0; i < uncommon_times; ++i)
      list.insert(list.end(), drawn.begin() + static_cast<std::ptrdiff_t>(common), drawn.end());
    order_.shuffle(list);
    out.context = numbered(list);
    return out;
  }

  Lists make(std::int64_t count, std::int64_t longest) {
    const bool small = longest < 4096;
    const Example solved = small ? example_of(20, 3, 1) : example_of(40, 10, 3);
    const Example asked = small ? example_of(count, 6, 1) : example_of(count, 30, 3);
    const std::string pattern = std::string(kListTemplate) + std::string(kListBeginning);
    return {filled(pattern, {{"context", solved.context}}) + numbered(solved.common),
            filled(pattern, {{"context", asked.context}}), asked.common};
  }

  Making& making_;
  PythonRandom order_;
  std::vector<std::string> words_;
};

struct CodedText {
  std::string input;
  std::vector<std::string> frequent;
};

// The words of a code appear by Zeta's law with exponent 2; the most frequent one is noise.
class Code {
 public:
  Code(Making& making, std::int64_t words) {
    constexpr int kLetters = 6;
    const auto wanted = static_cast<std::size_t>(words);
    std::set<std::string> drawn;
    for (std::size_t i = 0; i < wanted || drawn.size() < wanted; ++i)
      drawn.insert(drawn_letters(making.python, 'a', kLetters));
    words_.assign(drawn.begin(), drawn.end());
    PythonRandom(kSeedOfLists).shuffle(words_);
    words_[0] = "...";
  }

  CodedText text(std::int64_t count) const {
    constexpr double kZetaOfTwo = 1.6449340668482264;
    std::vector<std::size_t> drawn;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const double share = std::pow(static_cast<double>(i + 1), -2.0);
      const auto times = static_cast<std::int64_t>(static_cast<double>(count) * share / kZetaOfTwo);
      for (std::int64_t t = 0; t < times; ++t) drawn.push_back(i);
    }
    PythonRandom(kSeedOfLists).shuffle(drawn);
    std::string context;
    for (std::size_t i = 0; i < drawn.size(); ++i) context += (i == 0 ? "" : " ") + words_[drawn[i]];
    return {filled(std::string(kCodeTemplate) + std::string(kCodeBeginning), {{"context", context}}),
            {words_.begin() + 1, words_.begin() + 4}};
  }

 private:
  std::vector<std::string> words_;
};

std::vector<Json> coded_texts(Making& making, std::int64_t longest) {
  constexpr std::int64_t kTokensOfCodes = 50, kCharacters = 6;
  const std::int64_t vocabulary = longest / 50, step = longest / 32;
  if (vocabulary < 4) Making::too_short("a coded text", longest);
  std::int64_t usual = longest / kCharacters;
  {
    const Code code(making, vocabulary);
    while (making.tokens(code.text(usual).input) < longest) usual += step;
    usual -= step;
  }
  std::vector<Json> out;
  for (std::int64_t index = 0; index < making.samples(); ++index) {
    const Code code(making, vocabulary);
    std::int64_t count = usual;
    CodedText text = code.text(count);
    while (making.tokens(text.input) > longest) {
      count -= step;
      if (count <= 0) Making::too_short("a coded text", longest);
      text = code.text(count);
    }
    const std::int64_t length = making.tokens(text.input) + kTokensOfCodes;
    const std::string asked = text.input.substr(0, text.input.rfind(kCodeBeginning));
    out.push_back(Making::document(index, std::string(strip(asked)), Json(text.frequent), length, longest,
                                   std::string(strip(kCodeBeginning))));
  }
  return out;
}

}  // namespace

std::vector<Json> make_common_words(Making& making) {
  WordLists lists(making);
  std::vector<Json> out;
  for (const std::int64_t length : making.lengths())
    for (Json& document : lists.of_length(length)) out.push_back(std::move(document));
  return out;
}

std::vector<Json> make_frequent_words(Making& making) {
  std::vector<Json> out;
  for (const std::int64_t length : making.lengths())
    for (Json& document : coded_texts(making, length)) out.push_back(std::move(document));
  return out;
}

}  // namespace stoa::eval
