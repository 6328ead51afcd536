// The bookkeeping of BPE training: which pair of symbols is currently the most frequent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "token/bpe.h"
#include "token/word_counts.h"

namespace stoa::token {

// Counts of adjacent pairs with lazy updates, and the words in which each pair occurs. It reproduces Hugging
// Face's bookkeeping exactly, including its oddities: a merged pair keeps its count, and a pair that arises a
// second time (two ways to spell one token) gets a second queue entry with its own words.
class Merger {
 public:
  // `symbols_of(word, symbols)` appends the symbols of a word, at most one per byte.
  template <class SymbolsOf>
  Merger(const WordCounts& counts, SymbolsOf&& symbols_of) {
    std::size_t symbols = 0;
    for (std::size_t w = 0; w < counts.size(); ++w) symbols += counts.word(w).size();
    symbols_.reserve(symbols);
    words_.reserve(counts.size());
    for (std::size_t w = 0; w < counts.size(); ++w) {
      const std::size_t begin = symbols_.size();
      symbols_of(counts.word(w), symbols_);
      words_.push_back({begin, static_cast<std::uint32_t>(symbols_.size() - begin), counts.count(w)});
    }
    for (std::uint32_t w = 0; w < words_.size(); ++w) {
      const TokenId* s = symbols_.data() + words_[w].begin;
      for (std::uint32_t i = 0; i + 1 < words_[w].length; ++i) {
        change({s[i], s[i + 1]}, words_[w].count, w);
      }
    }
    queue_touched();
  }

  struct Pair {
    TokenId left, right;
    bool operator==(const Pair&) const = default;
    bool operator<(const Pair& o) const { return left != o.left ? left < o.left : right < o.right; }
  };

  // Finds the most frequent pair; false if none occurs at least `min_frequency` times (and once).
  bool next(std::int64_t min_frequency, Pair& pair) {
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end());
      top_ = heap_.back();
      heap_.pop_back();
      const std::int64_t count = infos_[top_.info].count;
      if (top_.count != count) {
        top_.count = count;
        heap_.push_back(top_);
        std::push_heap(heap_.begin(), heap_.end());
        continue;
      }
      if (count < 1 || count < min_frequency) return false;
      pair = top_.pair;
      return true;
    }
    return false;
  }

  // Replaces the pair returned by next() with `result` in all words of its entry.
  void merge(TokenId result) {
    ++step_;
    const Pair pair = top_.pair;
    const std::vector<std::uint32_t> where = std::move(places_[top_.places]);
    places_[top_.places] = {};
    free_places_.push_back(top_.places);
    for (const std::uint32_t w : where) merge_in(w, pair, result);
    queue_touched();
  }

 private:
  struct Word {
    std::size_t begin;
    std::uint32_t length;
    std::int64_t count;
  };
  struct Info {
    std::int64_t count = 0;
    std::uint32_t step = 0, places = 0;  // places: of the entry being made in `step`
    Pair pair{};
  };
  struct Entry {
    std::int64_t count;
    Pair pair;
    std::uint32_t info, places;
    bool operator<(const Entry& o) const { return count != o.count ? count < o.count : o.pair < pair; }
  };
  struct PairHash {
    std::size_t operator()(const Pair& p) const {
      const std::uint64_t k = static_cast<std::uint64_t>(static_cast<std::uint32_t>(p.left)) << 32 |
                              static_cast<std::uint32_t>(p.right);
      return static_cast<std::size_t>((k * 0x9E3779B97F4A7C15u) >> 20);
    }
  };

  std::uint32_t info_of(Pair pair) {
    if (infos_.size() * 2 >= slots_.size()) rehash();
    const std::size_t mask = slots_.size() - 1;
    std::size_t i = PairHash{}(pair)&mask;
    for (; slots_[i] != 0; i = (i + 1) & mask) {
      if (infos_[slots_[i] - 1].pair == pair) return slots_[i] - 1;
    }
    infos_.push_back({.pair = pair});
    slots_[i] = static_cast<std::uint32_t>(infos_.size());
    return slots_[i] - 1;
  }
  void rehash() {
    slots_.assign(std::max<std::size_t>(1 << 16, slots_.size() * 2), 0);
    const std::size_t mask = slots_.size() - 1;
    for (std::uint32_t n = 0; n < infos_.size(); ++n) {
      std::size_t i = PairHash{}(infos_[n].pair) & mask;
      while (slots_[i] != 0) i = (i + 1) & mask;
      slots_[i] = n + 1;
    }
  }

  void change(Pair pair, std::int64_t by, std::uint32_t word) {
    const std::uint32_t n = info_of(pair);
    Info& info = infos_[n];
    info.count += by;
    if (by <= 0) return;
    if (info.step != step_) {
      info.step = step_;
      if (free_places_.empty()) {
        info.places = static_cast<std::uint32_t>(places_.size());
        places_.emplace_back();
      } else {
        info.places = free_places_.back();
        free_places_.pop_back();
      }
      touched_.push_back(n);
    }
    auto& where = places_[info.places];
    if (where.empty() || where.back() != word) where.push_back(word);
  }

  void queue_touched() {
    for (const std::uint32_t n : touched_) {
      const Info& info = infos_[n];
      if (info.count > 0) {
        heap_.push_back({info.count, info.pair, n, info.places});
        std::push_heap(heap_.begin(), heap_.end());
      } else {
        places_[info.places] = {};
        free_places_.push_back(info.places);
      }
    }
    touched_.clear();
  }

  void merge_in(std::uint32_t w, Pair pair, TokenId result) {
    Word& word = words_[w];
    TokenId* s = symbols_.data() + word.begin;
    const std::uint32_t n = word.length;
    std::uint32_t out = 0;
    for (std::uint32_t i = 0; i < n;) {
      if (s[i] != pair.left || i + 1 >= n || s[i + 1] != pair.right) {
        s[out++] = s[i++];
        continue;
      }
      if (out > 0) {
        change({s[out - 1], pair.left}, -word.count, w);
        change({s[out - 1], result}, word.count, w);
      }
      s[out++] = result;
      i += 2;
      if (i < n) {
        change({pair.right, s[i]}, -word.count, w);
        change({result, s[i]}, word.count, w);
      }
    }
    word.length = out;
  }

  std::vector<TokenId> symbols_;
  std::vector<Word> words_;
  std::vector<Info> infos_;
  std::vector<std::uint32_t> slots_;
  std::vector<std::vector<std::uint32_t>> places_;
  std::vector<std::uint32_t> free_places_, touched_;
  std::vector<Entry> heap_;
  Entry top_{};
  std::uint32_t step_ = 1;
};

}  // namespace stoa::token
