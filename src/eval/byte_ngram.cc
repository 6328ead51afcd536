#include "eval/byte_ngram.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace stoa::eval {
namespace {

// The length stands above the bytes, so that sequences of different length never meet and no key is 0.
std::uint64_t key_of(std::uint64_t bytes, int length) {
  const std::uint64_t mask = (std::uint64_t{1} << (8 * length)) - 1;
  return (bytes & mask) | static_cast<std::uint64_t>(length + 1) << 56;
}

std::uint64_t mix(std::uint64_t x) {  // the finalizer of splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

ByteNgram::Counts::Counts() : entries_(1024, Entry{0, 0}) {}

std::size_t ByteNgram::Counts::find(std::uint64_t key) const {
  const std::size_t mask = entries_.size() - 1;
  std::size_t at = mix(key) & mask;
  while (entries_[at].key != 0 && entries_[at].key != key) at = (at + 1) & mask;
  return at;
}

std::uint32_t ByteNgram::Counts::get(std::uint64_t key) const { return entries_[find(key)].count; }

std::uint32_t ByteNgram::Counts::add(std::uint64_t key) {
  std::size_t at = find(key);
  if (entries_[at].key == 0) {
    if (2 * (used_ + 1) > entries_.size()) {
      std::vector<Entry> old(2 * entries_.size(), Entry{0, 0});
      old.swap(entries_);
      for (const Entry& entry : old)
        if (entry.key != 0) entries_[find(entry.key)] = entry;
      at = find(key);
    }
    entries_[at].key = key;
    ++used_;
  }
  return entries_[at].count++;
}

ByteNgram::ByteNgram(int order) : order_(order) {
  require<ConfigError>(order >= 1 && order <= kMaxOrder, "a byte n-gram has order 1 to {}, got {}", kMaxOrder,
                       order);
}

void ByteNgram::train(std::string_view text) {
  std::uint64_t window = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::uint64_t next = window << 8 | static_cast<unsigned char>(text[i]);
    const int longest = static_cast<int>(std::min<std::size_t>(i, static_cast<std::size_t>(order_ - 1)));
    for (int length = 0; length <= longest; ++length) {
      const std::uint64_t context = key_of(window, length);
      totals_.add(context);
      if (sequences_.add(key_of(next, length + 1)) == 0) followers_.add(context);
    }
    window = next;
  }
}

double ByteNgram::probability(std::string_view history, unsigned char byte) const {
  const auto longest = std::min(history.size(), static_cast<std::size_t>(order_ - 1));
  std::uint64_t window = 0;
  for (const char c : history.substr(history.size() - longest))
    window = window << 8 | static_cast<unsigned char>(c);
  double p = 1.0 / 256;
  for (int length = 0; length <= static_cast<int>(longest); ++length) {
    const std::uint64_t context = key_of(window, length);
    const double total = totals_.get(context);
    if (total == 0) break;  // longer contexts have not been seen either
    const double kinds = followers_.get(context);
    p = (sequences_.get(key_of(window << 8 | byte, length + 1)) + kinds * p) / (total + kinds);
  }
  return p;
}

double ByteNgram::bits(std::string_view text) const {
  double sum = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    sum -= std::log2(probability(text.substr(0, i), static_cast<unsigned char>(text[i])));
  return sum;
}

}  // namespace stoa::eval
