// English words and sentences exactly as spaCy's blank English pipeline cuts them, which datatrove's filters
// count: a piece between white space is peeled of prefixes and suffixes and cut at infixes, unless it is an
// exception (english_rules.h); exceptions that then span several tokens are matched again.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stoa::curate {

// A token that is no white space.
struct Word {
  enum Flag : std::uint16_t {
    kHasLetter = 1,  // some character is alphabetic
    kNotSymbol = 2,  // some character is none of datatrove's punctuation
    kAllPunctuation = 4,
    kEndsSentence = 8,
    kAfterSpace = 16,  // one blank stands before it
    kAfterGap = 32,    // other white space stands before it: a token of its own to spaCy
  };
  const char* begin = nullptr;
  std::uint32_t bytes = 0, characters = 0;
  std::uint16_t flags = 0;
  std::uint16_t pattern = 0;  // number among the tokens of exceptions; 0: none
  std::uint32_t unused = 0;
  std::uint64_t hash =
      0;  // of the bytes: a polynomial in kHashBase, so that hashes of texts joined can be computed
  std::uint64_t power = 0;  // kHashBase to the number of bytes

  std::string_view text() const { return {begin, bytes}; }
};
inline constexpr std::uint64_t kHashBase = 0x9e3779b97f4a7c15;  // odd: powers can be divided by

// Number of sentences; 1 where there are no words. `ends_with_gap`: as EnglishWords tells it of the text.
std::int64_t count_sentences(std::span<const Word> words, bool ends_with_gap);

class EnglishWords {
 public:
  EnglishWords();
  ~EnglishWords();
  EnglishWords(const EnglishWords&) = delete;
  EnglishWords& operator=(const EnglishWords&) = delete;

  // The words of valid UTF-8, in order; they point into `text` and live until the next call.
  std::span<const Word> split(std::string_view text);
  // Whether the text last split ends with white space that is a token of its own to spaCy.
  bool ends_with_gap() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stoa::curate
