// Which tokens of a sequence a rank of a context-parallel group holds. Arithmetic only.
//
// A sequence is cut into 2 x size chunks; rank r holds chunk r and chunk 2 x size - 1 - r, so that every rank
// has as many visible keys as any other (the "zig-zag" of Megatron-LM and of Llama 3). The local tokens of a
// microbatch are the early chunks of its rows, then the late ones.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace stoa::parallel {

// How attention sees keys of other ranks.
enum class ContextKind : std::uint8_t {
  kAllGather,  // keys and values of the whole sequence are gathered
  kAllToAll    // tokens are exchanged for heads (Jacobs et al. 2023, "Ulysses"): heads must divide evenly
};

std::string_view name_of(ContextKind kind);  // by Megatron's names: "all_gather", "a2a"

struct ContextPlace {
  int rank = 0, size = 1;
  ContextKind kind = ContextKind::kAllGather;

  bool split() const { return size > 1; }
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

// Between the order of the sequence and that of gathered tokens (those of rank 0, then of rank 1 ...).
struct ContextOrder {
  std::vector<std::int32_t> to_sequence;  // gathered token of every global token
  std::vector<std::int32_t> to_ranks;     // global token of every gathered token
};
ContextOrder context_order(int size, std::int64_t rows, std::int64_t length);

// Segments of attention (ops/attention.h) of one of this rank's chunks in all rows: queries are its local
// tokens, keys those of the whole sequence in its order.
struct ContextSegments {
  std::vector<std::int32_t> q_begin, k_begin, k_count, position;
  std::vector<std::int64_t> sample;
  std::int64_t longest_q = 0, longest_k = 0;
};
// `boundaries`: of the documents of a row, 0 ... length.
std::array<ContextSegments, 2> context_segments(
    const ContextPlace& place, std::int64_t rows, std::int64_t length, std::int64_t first_sample,
    const std::function<std::span<const std::int32_t>(std::int64_t row)>& boundaries);

// ConfigError: sequences that cannot be cut into chunks; heads or groups (on a rank of the tensor-parallel
// group) that all-to-all cannot deal out evenly.
void check_context(const ContextPlace& place, std::int64_t length, std::int64_t heads, std::int64_t groups);

}  // namespace stoa::parallel
