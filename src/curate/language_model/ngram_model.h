// N-gram models with back-off, as ARPA files hold them (SRILM's ngram-format(5), which KenLM reads and
// writes): the logarithm of the probability of a word after the words before it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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
    double log10 = 0;          // of the probability of the words and of the sentence's end
    std::int64_t words = 0;    // the end included
    std::int64_t unknown = 0;  // words that are no unigrams
  };
  // As KenLM's score(bos = True, eos = True): the sentence begins after <s> and ends with </s>.
  Score score(const std::vector<std::string_view>& words) const;
  // The logarithm of every word's probability, and of the end's.
  std::vector<double> logarithms(const std::vector<std::string_view>& words) const;

 private:
  struct Values {
    float log10 = 0, back_off = 0;
  };
  // Hashes and what belongs to them, with open addressing.
  template <class Value>
  class Table {
   public:
    const Value* find(std::uint64_t key) const;
    bool insert(std::uint64_t key, const Value& value);  // false: the key was there
    // The memory where find() and insert() will look.
    void prefetch(std::uint64_t key) const {
      if (!places_.empty()) __builtin_prefetch(&places_[key & (places_.size() - 1)]);
    }
    std::size_t used() const { return used_; }
    void expect(std::uint64_t entries) { expected_ = entries; }

   private:
    struct Place {
      std::uint64_t key = 0;  // 0: free
      Value value{};
    };
    void grow();

    std::vector<Place> places_;
    std::size_t used_ = 0;
    std::uint64_t expected_ = 0;
  };

  void read(data::ByteSource& source, const std::string& name);
  template <class Next>  // next(line): false at the end of the file
  void read_ngrams(std::size_t order, std::uint64_t count, const Next& next, std::string_view& line,
                   std::int64_t& number);
  template <class Visit>  // visit(id, log10)
  void each_word(const std::vector<std::string_view>& words, Visit&& visit) const;
  static std::uint64_t extend(std::uint64_t key, std::uint32_t word);

  Table<std::uint32_t> ids_;           // of words, by their hashes
  std::vector<Values> unigrams_;       // by id
  std::vector<Table<Values>> longer_;  // bigrams, trigrams …, by hashes of their ids, the last word first
  std::uint32_t begin_ = 0, end_ = 0, unknown_ = 0;
};

}  // namespace stoa::curate
