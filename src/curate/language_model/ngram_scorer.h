// Sentences scored by an n-gram model, many words at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "curate/language_model/ngram_model.h"

namespace stoa::curate {

// Words of sentences and what the model has of them. The n-grams of one order are looked up for all words,
// then those of the next order for the words that need it: no lookup waits for another, and their memory is
// fetched ahead.
class NgramLookups {
 public:
  explicit NgramLookups(const NgramModel& model) : model_(model) {}

  // Calls visit(log10, is_unknown) for words and ends of sentences, in order, now or later.
  template <class Visit>
  void add_sentence(std::span<const std::string_view> words, Visit&& visit) {
    add(0, visit);
    for (const std::string_view word : words) add(NgramModel::word_key(word), visit);
    add(end_key_, visit);
  }
  // For all that were added and not visited yet.
  template <class Visit>
  void finish(Visit&& visit) {
    look_up();
    for (std::size_t i = 0; i < used_; ++i)
      if (!is_beginning_[i]) visit(logarithm(i), ids_[kBefore + i] == model_.unknown_);
    keep_last();
  }

 private:
  static constexpr std::size_t kWords = 512, kBefore = NgramModel::kHighestOrder;

  template <class Visit>
  void add(std::uint64_t key, Visit&& visit) {
    if (used_ == kWords) finish(visit);
    model_.ids_.prefetch(key);
    keys_[used_++] = key;
  }
  void look_up();
  void look_up_words();
  std::size_t look_up_order(std::size_t order, std::size_t count);
  double logarithm(std::size_t word) const;
  void keep_last();

  const NgramModel& model_;
  const std::uint64_t end_key_ = NgramModel::word_key("</s>");
  std::size_t used_ = 0;
  std::array<std::uint64_t, kWords> keys_;  // of words, then of n-grams; 0: a sentence begins
  std::array<bool, kWords> is_beginning_;
  std::array<std::uint16_t, kWords> found_;  // words that end an n-gram of the order that was looked up last
  std::array<float, kWords> log10_;          // of the longest n-gram that ends with the word
  // After those of words that were there before:
  std::array<std::uint32_t, kBefore + kWords> ids_{};
  std::array<std::uint8_t, 1 + kWords> known_{};  // the order of the longest n-gram that ends with the word
  std::array<std::array<float, NgramModel::kHighestOrder>, 1 + kWords> back_offs_;  // of all that end with it
};

// Adds up the scores of sentences.
class SentenceScores {
 public:
  explicit SentenceScores(const NgramModel& model) : lookups_(model) {}
  void add(std::span<const std::string_view> words) { lookups_.add_sentence(words, sum_); }
  NgramModel::Score sum() {  // of all sentences so far
    lookups_.finish(sum_);
    return sum_.score;
  }

 private:
  struct Sum {
    NgramModel::Score score;
    void operator()(double log10, bool is_unknown) {
      ++score.words;
      score.unknown += is_unknown;
      score.log10 += log10;
    }
  };

  NgramLookups lookups_;
  Sum sum_;
};

}  // namespace stoa::curate
