// N-gram models with back-off, as ARPA files hold them (SRILM's ngram-format(5), which KenLM reads and
// writes): the logarithm of the probability of a word after the words before it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/huge_pages.h"
#include "curate/language_model/ngram_table.h"
#include "data/byte_source.h"

namespace stoa::curate {

class NgramModel {
 public:
  static constexpr int kHighestOrder = 8;

  // An ARPA file, also .gz or .zst. DataError "file:line: …": no ARPA file, truncated, an n-gram of a word
  // that is no unigram, a number that is none.
  explicit NgramModel(const fs::path& path);
  NgramModel(data::ByteSource& source, const std::string& name);

  int order() const { return 1 + static_cast<int>(longer_.size()); }
  std::size_t size(int order) const {
    return order == 1 ? unigrams_.size() : longer_[static_cast<std::size_t>(order - 2)].used();
  }

  struct Score {
    double log10 = 0;          // of the probability of the words and of the ends of their sentences
    std::int64_t words = 0;    // the ends included
    std::int64_t unknown = 0;  // words that are no unigrams
  };
  // As KenLM's score(bos = True, eos = True): the sentence begins after <s> and ends with </s>.
  Score score(std::span<const std::string_view> words) const;
  // The logarithm of every word's probability, and of the end's.
  std::vector<double> logarithms(std::span<const std::string_view> words) const;

 private:
  friend class NgramLookups;
  struct Values {
    float log10 = 0, back_off = 0;
  };

  void read(data::ByteSource& source, const std::string& name);
  template <class Next>  // next(line): false at the end of the file
  void read_ngrams(std::size_t order, std::uint64_t count, const Next& next, std::string_view& line,
                   std::int64_t& number);

  static std::uint64_t word_key(std::string_view word);
  // The key of an n-gram from that of its last words and the word before them.
  static std::uint64_t extend(std::uint64_t key, std::uint32_t word) {
    // MurmurHash3's finalizer.
    std::uint64_t h = (key ^ (word + std::uint64_t{1}) * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
    h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53u;
    h ^= h >> 33;
    return h == 0 ? 1 : h;
  }

  NgramTable<std::uint32_t> ids_;    // of words, by their hashes
  HugePageVector<Values> unigrams_;  // by id
  std::vector<NgramTable<Values>>
      longer_;  // bigrams, trigrams …, by hashes of their ids, the last word first
  std::uint32_t begin_ = 0, end_ = 0, unknown_ = 0;
};

}  // namespace stoa::curate
