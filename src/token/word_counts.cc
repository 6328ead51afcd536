#include "token/word_counts.h"

#include <cstring>
#include <limits>

#include "base/checksum.h"
#include "base/error.h"

namespace stoa::token {

WordCounts::WordCounts() : slots_(std::size_t{1} << 14) {}

std::uint64_t WordCounts::hash_of(std::string_view word) {
  if (word.size() <= 16) {
    std::uint64_t halves[2] = {0, 0};
    std::memcpy(halves, word.data(), word.size());
    std::uint64_t h = (halves[0] ^ (halves[1] + word.size()) * 0x9E3779B97F4A7C15u) * 0xD6E8FEB86659FD93u;
    h ^= h >> 32;
    return h * 0x9E3779B97F4A7C15u;
  }
  return checksum(word);
}

void WordCounts::add(std::string_view word, std::uint64_t hash, std::int64_t count) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = (hash >> 16) & mask;
  for (; slots_[i] != 0; i = (i + 1) & mask) {
    Word& known = words_[slots_[i] - 1];
    if (known.hash == hash && known.length == word.size() &&
        std::memcmp(text_.data() + known.begin, word.data(), word.size()) == 0) {
      known.count += count;
      return;
    }
  }
  require<DataError>(words_.size() + 1 < std::numeric_limits<std::uint32_t>::max() &&
                         word.size() < std::numeric_limits<std::uint32_t>::max(),
                     "too many distinct words, or one of over 4 GB, to train on");
  words_.push_back({hash, text_.size(), static_cast<std::uint32_t>(word.size()), count});
  text_.append(word);
  slots_[i] = static_cast<std::uint32_t>(words_.size());
  if (words_.size() * 2 > slots_.size()) grow();
}

void WordCounts::grow() {
  std::vector<std::uint32_t> wider(slots_.size() * 4);
  const std::size_t mask = wider.size() - 1;
  for (std::size_t w = 0; w < words_.size(); ++w) {
    std::size_t i = (words_[w].hash >> 16) & mask;
    while (wider[i] != 0) i = (i + 1) & mask;
    wider[i] = static_cast<std::uint32_t>(w + 1);
  }
  slots_ = std::move(wider);
}

}  // namespace stoa::token
