// Hashes and what belongs to them, with open addressing.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/huge_pages.h"

namespace stoa::curate {

template <class Value>
class NgramTable {
 public:
  // A key is not 0.
  const Value* find(std::uint64_t key) const {
    if (places_.empty()) return nullptr;
    for (std::size_t at = key & mask_;; at = (at + 1) & mask_) {
      if (places_[at].key == key) return &places_[at].value;
      if (places_[at].key == 0) return nullptr;
    }
  }

  // False: the key was there.
  bool insert(std::uint64_t key, const Value& value) {
    if (2 * (used_ + 1) > places_.size()) grow();
    std::size_t at = key & mask_;
    for (; places_[at].key != 0; at = (at + 1) & mask_)
      if (places_[at].key == key) return false;
    places_[at] = {key, value};
    ++used_;
    return true;
  }

  // The memory where find() and insert() will look.
  void prefetch(std::uint64_t key) const {
    if (!places_.empty()) __builtin_prefetch(&places_[key & mask_]);
  }

  std::size_t used() const { return used_; }
  void expect(std::uint64_t entries) { expected_ = entries; }

 private:
  struct Place {
    std::uint64_t key = 0;  // 0: free
    Value value{};
  };

  // To what the file announces, but never far beyond what it has held so far: it may announce anything.
  void grow() {
    constexpr std::uint64_t kFirst = 64, kMostGrowth = 8;
    const std::uint64_t entries =
        std::clamp<std::uint64_t>(expected_, used_ + 1, kMostGrowth * used_ + kFirst);
    HugePageVector<Place> old(std::bit_ceil(2 * entries));
    old.swap(places_);
    mask_ = places_.size() - 1;
    for (const Place& place : old) {
      if (place.key == 0) continue;
      std::size_t at = place.key & mask_;
      while (places_[at].key != 0) at = (at + 1) & mask_;
      places_[at] = place;
    }
  }

  HugePageVector<Place> places_;
  std::size_t mask_ = 0, used_ = 0;
  std::uint64_t expected_ = 0;
};

}  // namespace stoa::curate
