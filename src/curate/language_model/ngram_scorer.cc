#include "curate/language_model/ngram_scorer.h"

#include <algorithm>

namespace stoa::curate {

void NgramLookups::look_up() {
  look_up_words();
  std::size_t found = 0;
  for (std::size_t i = 0; i < used_; ++i)
    if (!is_beginning_[i]) found_[found++] = static_cast<std::uint16_t>(i);
  for (std::size_t order = 2; found > 0 && order <= 1 + model_.longer_.size(); ++order)
    found = look_up_order(order, found);
}

void NgramLookups::look_up_words() {
  for (std::size_t i = 0; i < used_; ++i) {
    is_beginning_[i] = keys_[i] == 0;
    std::uint32_t id = model_.begin_;
    if (!is_beginning_[i]) {
      const std::uint32_t* found = model_.ids_.find(keys_[i]);
      id = found == nullptr ? model_.unknown_ : *found;
    }
    ids_[kBefore + i] = id;
    __builtin_prefetch(&model_.unigrams_[id]);
  }
  for (std::size_t i = 0; i < used_; ++i) {
    const std::uint32_t id = ids_[kBefore + i];
    const NgramModel::Values& values = model_.unigrams_[id];
    keys_[i] = NgramModel::extend(0, id);
    log10_[i] = values.log10;
    back_offs_[1 + i][0] = values.back_off;
    known_[1 + i] = 1;
  }
}

// Keeps those of the first `count` words of found_ that end an n-gram of this order. A model that has an
// n-gram has its last words and its first words, too.
std::size_t NgramLookups::look_up_order(std::size_t order, std::size_t count) {
  const auto& table = model_.longer_[order - 2];
  std::size_t wanted = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const std::uint16_t i = found_[k];
    keys_[i] = NgramModel::extend(keys_[i], ids_[kBefore + i + 1 - order]);
    found_[wanted] = i;
    wanted += known_[i] + 1u >= order;  // known_[i]: of the word before
  }
  constexpr std::size_t kAhead = 24;
  for (std::size_t k = 0; k < std::min(kAhead, wanted); ++k) table.prefetch(keys_[found_[k]]);
  std::size_t found = 0;
  for (std::size_t k = 0; k < wanted; ++k) {
    if (k + kAhead < wanted) table.prefetch(keys_[found_[k + kAhead]]);
    const std::uint16_t i = found_[k];
    const NgramModel::Values* values = table.find(keys_[i]);
    if (values == nullptr) continue;
    log10_[i] = values->log10;
    back_offs_[1 + i][order - 1] = values->back_off;
    known_[1 + i] = static_cast<std::uint8_t>(order);
    found_[found++] = i;
  }
  return found;
}

// The logarithm of the longest n-gram, plus the back-offs of the longer contexts that the model has.
double NgramLookups::logarithm(std::size_t word) const {
  double sum = log10_[word];
  const std::size_t longest = std::min<std::size_t>(known_[word], model_.longer_.size());
  for (std::size_t order = known_[1 + word]; order <= longest; ++order) sum += back_offs_[word][order - 1];
  return sum;
}

// What the next words need of these.
void NgramLookups::keep_last() {
  known_[0] = known_[used_];
  back_offs_[0] = back_offs_[used_];
  std::copy_n(ids_.begin() + static_cast<std::ptrdiff_t>(used_), kBefore, ids_.begin());
  used_ = 0;
}

}  // namespace stoa::curate
