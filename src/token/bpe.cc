#include "token/bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "base/error.h"

namespace stoa::token {
namespace {
constexpr std::uint32_t kEnd = std::numeric_limits<std::uint32_t>::max();
constexpr TokenId kDead = -1;
}  // namespace

Bpe::Bpe(std::span<const TokenId> byte_ids, std::span<const Merge> merges, Rank order)
    : byte_ids_(byte_ids.begin(), byte_ids.end()), merges_(merges.begin(), merges.end()) {
  require<InternalError>(byte_ids.empty() || byte_ids.size() == 256,
                         "byte-level BPE needs 256 byte tokens, got {}", byte_ids.size());
  require<DataError>(merges.size() < kEnd, "{} merges are too many", merges.size());
  const std::size_t capacity =
      std::bit_ceil(std::max<std::size_t>(16, merges.size() * 2 + merges.size() / 2));
  slots_.resize(capacity);
  mask_ = capacity - 1;
  shift_ = 64 - std::countr_zero(capacity);
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& m = merges[rank];
    const std::uint64_t pair = key(m.left, m.right);
    std::size_t i = home(pair);
    while (slots_[i].pair != kNone && slots_[i].pair != pair) i = (i + 1) & mask_;
    const auto result = static_cast<std::uint32_t>(m.result);
    slots_[i] = {pair, (order == Rank::kResult ? std::uint64_t{result} : std::uint64_t{rank}) << 32 | result};
  }
  if (!byte_ids_.empty()) byte_pairs_.assign(65536, kNone);
  for (std::size_t pair = 0; pair < byte_pairs_.size(); ++pair) {
    const TokenId a = byte_ids_[pair >> 8], b = byte_ids_[pair & 255];
    if (a >= 0 && b >= 0) byte_pairs_[pair] = find(a, b);
  }
  if (order == Rank::kResult) {  // buckets are by place in the list
    ascending_ = false;
    return;
  }
  std::unordered_map<TokenId, std::size_t> made_last;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) made_last[merges[rank].result] = rank;
  for (std::size_t rank = 0; rank < merges.size() && ascending_; ++rank) {
    for (const TokenId part : {merges[rank].left, merges[rank].right}) {
      const auto made = made_last.find(part);
      if (made != made_last.end() && made->second >= rank) ascending_ = false;
    }
  }
}

std::size_t Bpe::encode_short(std::string_view word, TokenId* out) const {
  const std::size_t n = word.size();
  if (n == 0) return 0;
  std::uint64_t ranked[kShort];
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(word.data());
  for (std::size_t i = 0; i < n; ++i) out[i] = byte_ids_[bytes[i]];
  for (std::size_t i = 0; i + 1 < n; ++i) ranked[i] = find_bytes(bytes[i], bytes[i + 1]);
  std::size_t count = n;
  while (count > 1) {
    std::size_t best = 0;
    std::uint64_t lowest = ranked[0];
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (ranked[i] < lowest) lowest = ranked[i], best = i;
    }
    if (lowest == kNone) break;
    out[best] = static_cast<TokenId>(lowest & 0xFFFFFFFFu);
    for (std::size_t i = best + 1; i + 1 < count; ++i) out[i] = out[i + 1];
    for (std::size_t i = best; i + 2 < count; ++i) ranked[i] = ranked[i + 1];
    --count;
    if (best > 0) ranked[best - 1] = find(out[best - 1], out[best]);
    if (best + 1 < count) ranked[best] = find(out[best], out[best + 1]);
  }
  return count;
}

void Bpe::encode(std::string_view word, MergeScratch& scratch, std::vector<TokenId>& out) const {
  if (word.size() <= kShort) {
    TokenId ids[kShort];
    const std::size_t n = encode_short(word, ids);
    out.insert(out.end(), ids, ids + n);
  } else if (ascending_) {
    encode_buckets(word, scratch, out);
  } else {
    encode_heap(word, scratch, out);
  }
}

void Bpe::link(std::string_view word, MergeScratch& s) const {
  s.ids.clear();
  s.ids.reserve(word.size());
  for (const char c : word) s.ids.push_back(byte_ids_[static_cast<std::uint8_t>(c)]);
  link_neighbours(s);
}

void Bpe::link_neighbours(MergeScratch& s) const {
  require<DataError>(s.ids.size() < kEnd, "a word of {} symbols is too long", s.ids.size());
  const auto n = static_cast<std::uint32_t>(s.ids.size());
  s.previous.resize(n);
  s.next.resize(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    s.previous[i] = i == 0 ? kEnd : i - 1;
    s.next[i] = i + 1 == n ? kEnd : i + 1;
  }
}

void Bpe::encode_symbols(std::span<const TokenId> symbols, MergeScratch& s, std::vector<TokenId>& out) const {
  s.ids.assign(symbols.begin(), symbols.end());
  link_neighbours(s);
  run(s);
  collect(s, out);
}

const std::vector<TokenId>& Bpe::merge(std::span<const TokenId> symbols, MergeScratch& s,
                                       std::vector<std::uint32_t>& places) const {
  s.merged.clear();
  s.ids.assign(symbols.begin(), symbols.end());
  link_neighbours(s);
  run(s);
  for (std::uint32_t i = 0; i != kEnd && !s.ids.empty(); i = s.next[i]) {
    s.merged.push_back(s.ids[i]);
    places.push_back(i);
  }
  return s.merged;
}

void Bpe::run(MergeScratch& s) const {
  constexpr std::size_t kFew = 32;  // a heap of so few is faster than tables
  if (ascending_ && s.ids.size() > kFew) {
    run_buckets(s);
  } else {
    run_heap(s);
  }
}

void Bpe::encode_buckets(std::string_view word, MergeScratch& s, std::vector<TokenId>& out) const {
  link(word, s);
  run_buckets(s);
  collect(s, out);
}

void Bpe::encode_heap(std::string_view word, MergeScratch& s, std::vector<TokenId>& out) const {
  link(word, s);
  run_heap(s);
  collect(s, out);
}

void Bpe::collect(MergeScratch& s, std::vector<TokenId>& out) const {
  for (std::uint32_t i = 0; i != kEnd && !s.ids.empty(); i = s.next[i]) out.push_back(s.ids[i]);
}

// One bucket of positions per rank; ranks leave a heap in ascending order. A merge only creates pairs of
// higher rank (ascending()), so a bucket is complete when its turn comes, and is worked from left to right.
void Bpe::run_buckets(MergeScratch& s) const {
  s.bucket_of_rank.resize(merges_.size(), -1);
  std::size_t used = 0;
  const auto push = [&](std::uint64_t ranked, std::uint32_t position) {
    const auto rank = static_cast<std::uint32_t>(ranked >> 32);
    std::int32_t& index = s.bucket_of_rank[rank];
    if (index < 0) {
      index = static_cast<std::int32_t>(used++);
      if (used > s.buckets.size()) s.buckets.emplace_back();
      s.heap.push_back(rank);
      std::push_heap(s.heap.begin(), s.heap.end(), std::greater<>());
    }
    auto& bucket = s.buckets[static_cast<std::size_t>(index)];
    if (!bucket.positions.empty() && bucket.positions.back() > position) bucket.sorted = false;
    bucket.positions.push_back(position);
  };
  for (std::uint32_t i = 0; i + 1 < s.ids.size(); ++i) {
    const std::uint64_t ranked = find(s.ids[i], s.ids[i + 1]);
    if (ranked != kNone) push(ranked, i);
  }
  std::vector<std::uint32_t> positions;
  while (!s.heap.empty()) {
    std::pop_heap(s.heap.begin(), s.heap.end(), std::greater<>());
    const std::uint32_t rank = s.heap.back();
    s.heap.pop_back();
    auto& bucket = s.buckets[static_cast<std::size_t>(s.bucket_of_rank[rank])];
    positions.swap(bucket.positions);
    if (!bucket.sorted) std::sort(positions.begin(), positions.end());
    const Merge& merge = merges_[rank];
    for (const std::uint32_t p : positions) {
      if (s.ids[p] != merge.left) continue;
      const std::uint32_t q = s.next[p];
      if (q == kEnd || s.ids[q] != merge.right) continue;
      s.ids[p] = merge.result;
      s.ids[q] = kDead;
      const std::uint32_t after = s.next[q], before = s.previous[p];
      s.next[p] = after;
      if (after != kEnd) {
        s.previous[after] = p;
        const std::uint64_t ranked = find(merge.result, s.ids[after]);
        if (ranked != kNone) push(ranked, p);
      }
      if (before != kEnd) {
        const std::uint64_t ranked = find(s.ids[before], merge.result);
        if (ranked != kNone) push(ranked, before);
      }
    }
    // The bucket's own array may have moved while others were made.
    auto& spent = s.buckets[static_cast<std::size_t>(s.bucket_of_rank[rank])];
    positions.clear();
    spent.positions.swap(positions);
    spent.sorted = true;
    s.bucket_of_rank[rank] = -1;
  }
}

void Bpe::run_heap(MergeScratch& s) const {
  struct Item {
    std::uint64_t ranked;
    std::uint32_t position;
    TokenId left, right;
    bool operator>(const Item& o) const {
      return ranked >> 32 != o.ranked >> 32 ? ranked > o.ranked : position > o.position;
    }
  };
  std::vector<Item> heap;
  const auto push = [&](std::uint32_t p) {
    const std::uint32_t q = s.next[p];
    if (q == kEnd) return;
    const std::uint64_t ranked = find(s.ids[p], s.ids[q]);
    if (ranked == kNone) return;
    heap.push_back({ranked, p, s.ids[p], s.ids[q]});
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (std::uint32_t i = 0; i + 1 < s.ids.size(); ++i) push(i);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const Item top = heap.back();
    heap.pop_back();
    const std::uint32_t p = top.position;
    if (s.ids[p] != top.left) continue;
    const std::uint32_t q = s.next[p];
    if (q == kEnd || s.ids[q] != top.right) continue;
    s.ids[p] = static_cast<TokenId>(top.ranked & 0xFFFFFFFFu);
    s.ids[q] = kDead;
    s.next[p] = s.next[q];
    if (s.next[q] != kEnd) s.previous[s.next[q]] = p;
    push(p);
    if (s.previous[p] != kEnd) push(s.previous[p]);
  }
}

}  // namespace stoa::token
