#include "curate/text/features.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "curate/text/character.h"

namespace stoa::curate {
namespace {

constexpr std::uint64_t inverse(std::uint64_t odd) {
  std::uint64_t x = odd;  // Newton: every round doubles the bits that are right
  for (int i = 0; i < 6; ++i) x *= 2 - odd * x;
  return x;
}
constexpr std::uint64_t kInverseBase = inverse(kHashBase);
static_assert(kInverseBase * kHashBase == 1);

constexpr auto kInversePowers = [] {
  std::array<std::uint64_t, 65> powers{1};
  for (std::size_t i = 1; i < powers.size(); ++i) powers[i] = powers[i - 1] * kInverseBase;
  return powers;
}();

std::uint64_t inverse_power(std::uint32_t bytes) {
  std::uint64_t power = 1;
  for (; bytes >= kInversePowers.size(); bytes -= 64) power *= kInversePowers[64];
  return power * kInversePowers[bytes];
}

// Spreads a sum over all bits; 0 is kept for a free slot.
std::uint64_t key_of(std::uint64_t hash) {
  hash ^= hash >> 32;
  hash *= 0xd6e8feb86659fd93;
  hash ^= hash >> 32;
  return hash | 1;
}

}  // namespace

void Features::reset(std::string_view text) {
  text_ = text;
  characters_.reset();
  word_count_.reset();
  has_lines_ = has_words_ = has_sums_ = false;
}

void Features::reset(std::string_view text, std::int64_t words) {
  reset(text);
  word_count_ = words;
}

std::int64_t Features::characters() {
  if (!characters_) characters_ = static_cast<std::int64_t>(count_characters(text_));
  return *characters_;
}

std::span<const Line> Features::lines() {
  if (!has_lines_) {
    has_lines_ = true;
    lines_.clear();
    for (std::size_t at = 0;;) {
      const void* found = std::memchr(text_.data() + at, '\n', text_.size() - at);
      const std::size_t end =
          found ? static_cast<std::size_t>(static_cast<const char*>(found) - text_.data()) : text_.size();
      const std::string_view line = text_.substr(at, end - at);
      lines_.push_back({line, static_cast<std::uint32_t>(count_characters(line))});
      if (!found) break;
      at = end + 1;
    }
  }
  return lines_;
}

std::span<const Word> Features::words() {
  if (!has_words_) {
    has_words_ = true;
    words_ = english_.split(text_);
  }
  return words_;
}

void Features::clear_slots(std::size_t entries) {
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(16, 2 * entries));
  slots_.assign(size, Slot());
  mask_ = size - 1;
}

Repeats Features::repeats(std::span<const Line> pieces) {
  Repeats repeats;
  clear_slots(pieces.size());
  for (std::uint32_t i = 0; i < pieces.size(); ++i) {
    const std::string_view text = pieces[i].text;
    const std::uint64_t key = XXH3_64bits(text.data(), text.size()) | 1;
    for (std::size_t at = key >> 20 & mask_;; at = (at + 1) & mask_) {
      Slot& slot = slots_[at];
      if (slot.key == 0) {
        slot = {key, 1, i};
        break;
      }
      if (slot.key == key && pieces[slot.first].text == text) {
        ++repeats.pieces;
        repeats.characters += pieces[i].characters;
        break;
      }
    }
  }
  return repeats;
}

std::int64_t Features::top_ngram_characters(int n) {
  const auto all = words();
  if (all.size() < static_cast<std::size_t>(n)) return 0;
  const std::size_t count = all.size() - static_cast<std::size_t>(n) + 1;
  clear_slots(count);
  std::uint32_t most = 0, most_first = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint64_t hash = 0;
    for (int k = 0; k < n; ++k)
      hash = (std::rotl(hash, 23) ^ all[i + static_cast<std::uint32_t>(k)].hash) * 0x9fb21c651e98df25;
    const std::uint64_t key = key_of(hash);
    std::size_t at = key >> 20 & mask_;
    while (slots_[at].key != 0 && slots_[at].key != key) at = (at + 1) & mask_;
    Slot& slot = slots_[at];
    if (slot.key == 0) slot = {key, 0, i};
    ++slot.count;
    if (slot.count > most || (slot.count == most && slot.first < most_first)) {
      most = slot.count;
      most_first = slot.first;
    }
  }
  std::int64_t length = n - 1;
  for (int k = 0; k < n; ++k) length += all[most_first + static_cast<std::uint32_t>(k)].characters;
  return length * most;
}

// sums_[i] is the hash of the words before i joined, so that the hash of any n-gram joined is a difference,
// moved to the beginning by a division by the base to the number of bytes before it.
void Features::sum_hashes() {
  if (has_sums_) return;
  has_sums_ = true;
  const auto all = words();
  sums_.resize(all.size() + 1);
  unshift_.resize(all.size() + 1);
  std::uint64_t sum = 0, shift = 1, unshift = 1;
  for (std::size_t i = 0; i < all.size(); ++i) {
    sums_[i] = sum;
    unshift_[i] = unshift;
    sum += all[i].hash * shift;
    shift *= all[i].power;
    unshift *= inverse_power(all[i].bytes);
  }
  sums_.back() = sum;
}

bool Features::same_words(std::size_t a, std::size_t b, int n) const {
  std::size_t end_a = a + static_cast<std::size_t>(n), end_b = b + static_cast<std::size_t>(n);
  std::string_view x, y;  // what is left of the words looked at
  for (;;) {
    while (x.empty() && a < end_a) x = words_[a++].text();
    while (y.empty() && b < end_b) y = words_[b++].text();
    if (x.empty() || y.empty()) return x.empty() && y.empty();
    const std::size_t common = std::min(x.size(), y.size());
    if (std::memcmp(x.data(), y.data(), common) != 0) return false;
    x.remove_prefix(common);
    y.remove_prefix(common);
  }
}

std::int64_t Features::repeated_ngram_characters(int n) {
  const auto all = words();
  const auto size = static_cast<std::size_t>(n);
  if (all.size() < size) return 0;
  sum_hashes();
  clear_slots(all.size() - size + 1);
  std::int64_t repeated = 0;
  for (std::size_t i = 0; i + size <= all.size();) {
    const std::uint64_t key = key_of((sums_[i + size] - sums_[i]) * unshift_[i]);
    bool seen = false;
    for (std::size_t at = key >> 20 & mask_;; at = (at + 1) & mask_) {
      Slot& slot = slots_[at];
      if (slot.key == 0) {
        slot = {key, 1, static_cast<std::uint32_t>(i)};
        break;
      }
      if (slot.key == key && same_words(slot.first, i, n)) {
        seen = true;
        break;
      }
    }
    if (seen)
      for (std::size_t k = 0; k < size; ++k) repeated += all[i + k].characters;
    i += seen ? size : 1;
  }
  return repeated;
}

void split_at_newlines(Features& features, std::vector<Line>& pieces) {
  const auto lines = features.lines();
  pieces.clear();
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (!lines[i].text.empty() || i == 0 || i + 1 == lines.size()) pieces.push_back(lines[i]);
}

}  // namespace stoa::curate
