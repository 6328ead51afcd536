// Byte-pair merges: pair table, and merging of one word by lowest rank, leftmost first (Sennrich et al. 2016;
// GPT-2).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace stoa::token {

using TokenId = std::int32_t;

struct Merge {
  TokenId left, right, result;
};

// Scratch of one thread for words too long for the stack.
struct MergeScratch {
  struct Bucket {
    std::vector<std::uint32_t> positions;
    bool sorted = true;
  };
  std::vector<TokenId> ids, merged;
  std::vector<std::uint32_t> previous, next;
  std::vector<std::int32_t> bucket_of_rank;  // -1: none; sized on first use
  std::vector<Bucket> buckets;
  std::vector<std::uint32_t> heap;
  std::vector<std::uint64_t> ranked;
};

class Bpe {
 public:
  enum class Rank : std::uint8_t {
    kOrder,   // the place in the list
    kResult,  // the id of what a merge makes, as in tiktoken
  };
  // `byte_ids`: the token of each byte (-1: none), or empty where words are given as tokens alone; `merges`
  // in rank order. The same pair twice: the later rank counts, as in Hugging Face tokenizers.
  Bpe(std::span<const TokenId> byte_ids, std::span<const Merge> merges, Rank rank = Rank::kOrder);

  TokenId byte_id(std::uint8_t byte) const { return byte_ids_[byte]; }

  // Appends the tokens of one word. Short words take a scan, long ones buckets by rank: n log n at worst.
  void encode(std::string_view word, MergeScratch& scratch, std::vector<TokenId>& out) const;
  // The same into an array with room for word.size() ids; returns their number. For words of up to kShort
  // bytes.
  static constexpr std::size_t kShort = 48;
  std::size_t encode_short(std::string_view word, TokenId* out) const;

  // The same for a word given as tokens, of any kind.
  void encode_symbols(std::span<const TokenId> symbols, MergeScratch& scratch,
                      std::vector<TokenId>& out) const;
  // The same; the result lives in `scratch`. Appends to `places` at which symbol each token begins.
  const std::vector<TokenId>& merge(std::span<const TokenId> symbols, MergeScratch& scratch,
                                    std::vector<std::uint32_t>& places) const;

  // Both ways for long words; `encode` chooses. Public for tests, which compare them.
  void encode_buckets(std::string_view word, MergeScratch& scratch, std::vector<TokenId>& out) const;
  void encode_heap(std::string_view word, MergeScratch& scratch, std::vector<TokenId>& out) const;
  // A merge never makes a pair of lower or equal rank: true of every table that training made without two
  // ways to one token. Buckets need it.
  bool ascending() const { return ascending_; }

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t pair = kNone;
    std::uint64_t ranked = kNone;  // rank << 32 | result
  };
  static std::uint64_t key(TokenId left, TokenId right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  std::size_t home(std::uint64_t pair) const { return (pair * 0x9E3779B97F4A7C15u) >> shift_; }
  // rank << 32 | result, or kNone.
  std::uint64_t find(TokenId left, TokenId right) const {
    const std::uint64_t pair = key(left, right);
    for (std::size_t i = home(pair);; i = (i + 1) & mask_) {
      if (slots_[i].pair == pair) return slots_[i].ranked;
      if (slots_[i].pair == kNone) return kNone;
    }
  }
  std::uint64_t find_bytes(std::uint8_t left, std::uint8_t right) const {
    return byte_pairs_[static_cast<std::size_t>(left) << 8 | right];
  }
  void link(std::string_view word, MergeScratch& scratch) const;
  void link_neighbours(MergeScratch& scratch) const;
  void run(MergeScratch& scratch) const;
  void run_buckets(MergeScratch& scratch) const;
  void run_heap(MergeScratch& scratch) const;
  void collect(MergeScratch& scratch, std::vector<TokenId>& out) const;

  std::vector<TokenId> byte_ids_;
  std::vector<Slot> slots_;
  std::vector<std::uint64_t> byte_pairs_;  // the first lookups of every word, without hashing
  std::vector<Merge> merges_;
  std::size_t mask_ = 0;
  int shift_ = 0;
  bool ascending_ = true;
};

}  // namespace stoa::token
