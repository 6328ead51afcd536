// N-gram models with back-off, as ARPA files hold them (SRILM's ngram-format(5), which KenLM reads and
// writes): the logarithm of the probability of a word after the words before it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
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

  int order() const { return static_cast<int>(orders_.size()); }
  std::size_t size(int order) const { return orders_[static_cast<std::size_t>(order - 1)].used; }

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
  struct Entry {
    std::uint64_t key = 0;  // 0: free
    float log10 = 0, back_off = 0;
  };
  // Open addressing; keys are hashes of word ids, the last word first.
  struct Table {
    std::vector<Entry> entries;
    std::size_t used = 0;
    const Entry* find(std::uint64_t key) const;
    bool insert(const Entry& entry);  // false: the key was there
  };
  // The words before, the last one first, as far as the model knows them together.
  struct State {
    int words = 0;
    std::array<std::uint32_t, kHighestOrder> ids{};
    std::array<float, kHighestOrder> back_offs{};  // of the last word, the last two, …
  };

  void read(data::ByteSource& source, const std::string& name);
  double advance(std::uint32_t word, State& state) const;
  template <class Visit>  // visit(id, log10)
  void each_word(const std::vector<std::string_view>& words, Visit&& visit) const;
  static std::uint64_t extend(std::uint64_t key, std::uint32_t word);

  std::unordered_map<std::string, std::uint32_t> ids_;
  std::uint32_t begin_ = 0, end_ = 0, unknown_ = 0;
  std::vector<Table> orders_;
};

}  // namespace stoa::curate
