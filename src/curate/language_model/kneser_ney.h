// Interpolated modified Kneser-Ney smoothing (Chen and Goodman 1998), as KenLM's lmplz estimates it: counts
// of an order below the highest are the numbers of different words before an n-gram, but for those that begin
// with <s>; three discounts per order; unigrams are interpolated with the uniform distribution.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"

namespace stoa::curate {

class KneserNeyTrainer {
 public:
  static constexpr int kHighestOrder = 6;

  // ConfigError: an order outside 2 … kHighestOrder. `memory`: bytes that its n-grams may take.
  KneserNeyTrainer(int order, std::uint64_t memory);

  // ConfigError: beyond the memory.
  void add(const std::vector<std::string_view>& sentence);
  std::int64_t words() const { return words_; }

  struct Discounts {
    std::array<double, 3> of{};  // of counts 1, 2, 3 and more
    bool fallback = false;  // counts of counts allow no estimate (small or artificial texts): 0.5, 1, 1.5
  };
  struct Summary {
    std::vector<std::uint64_t> ngrams;  // by order
    std::vector<Discounts> discounts;
  };
  // Estimates, and writes an ARPA file atomically. DataError: no sentence. The trainer is used up.
  Summary write(const fs::path& path);

 private:
  using Words = std::array<std::uint32_t, kHighestOrder>;
  struct Gram {
    Words words{};  // those beyond the order are 0
    std::uint64_t count = 0;
    double probability = 0, back_off = 1;  // after estimation; not logarithms
  };
  std::uint32_t id_of(std::string_view word);
  void count_raw(std::size_t order, const std::uint32_t* words);
  void count_lower_orders();
  static void merge_equal(std::vector<Gram>& grams);
  Discounts estimate_discounts(std::size_t order) const;
  void estimate(std::size_t order, const Discounts& discounts);
  Gram& find(std::size_t order, const std::uint32_t* words);

  const std::size_t order_;
  const std::uint64_t most_grams_;
  std::uint64_t grams_held_ = 0, merge_at_;
  std::int64_t words_ = 0;
  std::unordered_map<std::string, std::uint32_t> ids_;
  std::vector<std::string> names_;
  std::vector<std::vector<Gram>> grams_;  // by order - 1; sorted by words once estimated
};

}  // namespace stoa::curate
