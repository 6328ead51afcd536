// Which tokens of a sequence a rank of a context-parallel group holds. Arithmetic only.
//
// A sequence is cut into 2 x size chunks; rank r holds chunk r and chunk 2 x size - 1 - r, so that every rank
// has as many visible keys as any other (the "zig-zag" of Megatron-LM and of Llama 3). The local tokens of a
// microbatch are the early chunks of its rows, then the late ones.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace stoa::parallel {

// How attention sees keys of other ranks.
enum class ContextKind : std::uint8_t {
  kAllGather,    // keys and values of the whole sequence are gathered
  kAllToAll,     // tokens are exchanged for heads (Jacobs et al. 2023, "Ulysses"): heads must divide evenly
  kRing,         // keys and values go around, a rank's at a time (Liu et al. 2023)
  kHierarchical  // neighbours exchange tokens for heads; keys and values go around among their groups
};
std::string_view name_of(ContextKind kind);  // by Megatron's names: "all_gather", "a2a", "p2p", "a2a+p2p"

struct ContextPlace {
  int rank = 0, size = 1;
  ContextKind kind = ContextKind::kAllGather;
  int neighbours = 1;  // kHierarchical: consecutive ranks that exchange tokens for heads

  bool split() const { return size > 1; }
  // Number of consecutive ranks that exchange tokens for heads: during attention each of them has some of the
  // heads, for all tokens of these ranks.
  int exchanging() const {
    if (!split()) return 1;
    return kind == ContextKind::kAllToAll ? size : kind == ContextKind::kHierarchical ? neighbours : 1;
  }
  // The place of this rank's exchanging group among all such groups: together its ranks hold the chunks of
  // one rank of a group of that size.
  ContextPlace outer() const {
    const ContextKind rest = kind == ContextKind::kAllGather ? kind : ContextKind::kRing;
    return {rank / exchanging(), size / exchanging(), rest, 1};
  }
  // Tokens of a chunk of sequences of `length`.
  std::int64_t chunk(std::int64_t length) const { return length / (2 * size); }
  // First position of this rank's early (0) and late (1) chunk.
  std::int64_t begin(int part, std::int64_t length) const {
    return (part == 0 ? rank : 2 * size - 1 - rank) * chunk(length);
  }
};

// Calls f(first local token, tokens, first global token) for every run of consecutive tokens, in local order;
// token t of row i is global token i * length + t.
template <class F>
void for_each_run(const ContextPlace& place, std::int64_t rows, std::int64_t length, F&& f) {
  if (!place.split()) return f(std::int64_t{0}, rows * length, std::int64_t{0});
  const std::int64_t chunk = place.chunk(length);
  for (int part = 0; part < 2; ++part)
    for (std::int64_t row = 0; row < rows; ++row)
      f((part * rows + row) * chunk, chunk, row * length + place.begin(part, length));
}

// Global token of every local token.
std::vector<std::int32_t> local_tokens(const ContextPlace& place, std::int64_t rows, std::int64_t length);

// Index maps between tokens as received from several ranks (lowest rank first) and as attention needs them:
// in the order of the sequence; with kHierarchical in the local order of outer().
struct ContextOrder {
  std::vector<std::int32_t> to_attention;  // received token of every token of attention
  std::vector<std::int32_t> to_ranks;      // and the other way
};
// Nothing with kRing.
ContextOrder context_order(const ContextPlace& place, std::int64_t rows, std::int64_t length);

// Queries and keys that meet in one operation of attention: positions [q_begin, q_begin + q_count) of every
// row with keys [k_begin, k_begin + k_count).
struct ContextBlock {
  int step = 0;                  // ring: how many ranks back the keys come from
  int q_chunk = 0, k_chunk = 0;  // early or late
  std::int64_t q_begin = 0, q_count = 0, k_begin = 0, k_count = 0;

  bool keys_before() const { return k_begin + k_count <= q_begin; }  // all of them
};
// In the order in which their keys arrive at the rank; those that causal attention cannot see are left out.
// kAllGather: the early and the late chunk with the whole sequence. kRing: chunk by chunk, its own first, as
// many blocks on every rank. No split, or all heads exchanged: one block.
std::vector<ContextBlock> context_blocks(const ContextPlace& place, std::int64_t length);

// Segments of attention (ops/attention.h) of a block in all rows.
struct ContextSegments {
  std::vector<std::int32_t> q_begin, k_begin, k_count, position, behind;
  std::vector<std::int64_t> sample;
  std::int64_t longest_q = 0, longest_k = 0;  // no key is visible: 0

  // `boundaries`: of the documents of a row, 0 ... length. Queries and keys of row i begin with their tokens
  // i * q_count and i * k_count. The memory of the vectors is kept.
  void fill(const ContextBlock& block, std::int64_t rows, std::int64_t first_sample,
            const std::function<std::span<const std::int32_t>(std::int64_t row)>& boundaries);
};

// ConfigError: sequences that cannot be cut into chunks; heads or groups (on a rank of the tensor-parallel
// group) that an exchange cannot distribute evenly; `neighbours` that do not divide the ranks.
void check_context(const ContextPlace& place, std::int64_t length, std::int64_t heads, std::int64_t groups);

}  // namespace stoa::parallel
