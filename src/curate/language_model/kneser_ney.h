// Interpolated modified Kneser-Ney smoothing (Chen and Goodman 1998), as KenLM's lmplz estimates it: counts
// of an order below the highest are the numbers of different words before an n-gram, but for those that begin
// with <s>; three discounts per order; unigrams are interpolated with the uniform distribution.
// The vocabulary is held in memory. N-grams that do not fit are sorted on disk; orders are joined by reading
// their n-grams side by side, in sorted order.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "curate/language_model/gram_sort.h"

namespace stoa::curate {

class KneserNeyTrainer {
 public:
  static constexpr int kHighestOrder = kMostGramWords;

  // ConfigError: an order outside 2 … kHighestOrder. `memory`: bytes that it may take; what does not fit is
  // sorted in files of `folder`, which it makes and removes.
  KneserNeyTrainer(int order, std::uint64_t memory, fs::path folder);
  ~KneserNeyTrainer();
  KneserNeyTrainer(const KneserNeyTrainer&) = delete;
  KneserNeyTrainer& operator=(const KneserNeyTrainer&) = delete;

  // ConfigError: a vocabulary beyond the memory.
  void add(const std::vector<std::string_view>& sentence);
  std::int64_t words() const { return words_; }

  struct Discounts {
    std::array<double, 3> of{};  // of counts 1, 2, 3 and more
    bool fallback = false;  // counts of counts allow no estimate (small or artificial texts): 0.5, 1, 1.5
  };
  struct Summary {
    std::vector<std::uint64_t> ngrams;  // by order
    std::vector<Discounts> discounts;
    std::uint64_t runs = 0;  // sorted pieces that went to disk
  };
  // Estimates, and writes an ARPA file atomically. DataError: no sentence. The trainer is used up.
  Summary write(const fs::path& path);

 private:
  class Arpa;
  struct Order {
    std::unique_ptr<GramSorter> counted;  // by words; until they are merged
    std::unique_ptr<GramFile> grams;  // with counts, later with probabilities; in the order of their words
    Discounts discounts;
  };
  std::uint32_t id_of(std::string_view word);
  void count(std::size_t order, const std::uint32_t* words);
  void merge_counts(std::size_t order);
  void estimate_unigrams();
  void estimate(std::size_t order, Arpa& arpa);
  fs::path file_named(std::string_view name, std::size_t order) const;
  std::unique_ptr<GramFile> new_file(std::string_view name, std::size_t order) const;

  const std::size_t order_;
  const std::uint64_t memory_;
  const fs::path folder_;
  std::uint64_t vocabulary_bytes_ = 0, runs_ = 0;
  std::int64_t words_ = 0;
  std::unordered_map<std::string, std::uint32_t> ids_;
  std::vector<const std::string*> names_;  // keys of ids_
  std::vector<Order> orders_;              // by order - 1
};

}  // namespace stoa::curate
