// The texts of a vocabulary's tokens as trees of bytes, so that a mask looks at each common beginning once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stoa::token {
class Tokenizer;
}

namespace stoa::constraint {

// Tokens by bits: id i is bit i % 64 of word i / 64.
using TokenBits = std::vector<std::uint64_t>;
inline bool has(std::span<const std::uint64_t> bits, std::int32_t id) {
  return (bits[static_cast<std::size_t>(id) / 64] >> (id % 64) & 1) != 0;
}

class TokenTrie {
 public:
  // The text of each id; "": it is never allowed. `special`: ids that stand for no text and are only allowed
  // where a constraint names them.
  TokenTrie(std::vector<std::string> texts, const std::vector<std::int32_t>& special);
  // The texts of a tokenizer, whose model has logits of `vocabulary` ids.
  TokenTrie(const token::Tokenizer& tokenizer, std::int64_t vocabulary);

  std::int32_t vocabulary() const { return static_cast<std::int32_t>(texts_.size()); }
  // What a constraint reads for the token.
  const std::string& bytes(std::int32_t id) const { return texts_[static_cast<std::size_t>(id)]; }

  // In depth-first order.
  struct Node {
    std::uint8_t byte = 0;
    std::uint8_t most_characters = 0;  // of the tokens below, at most 255; only of ordinary ones
    std::uint16_t depth = 0;           // 0: the first byte
    std::int32_t end = 0;              // the node behind those below
    std::int32_t first_token = 0;      // of tokens(): its own are up to the next node's
  };
  struct Tree {
    std::vector<Node> nodes;  // and one more at the end, for first_token
    std::vector<std::int32_t> tokens;
    std::size_t size() const { return nodes.size() - 1; }
  };
  // Tokens of ordinary characters alone, and the others.
  const Tree& ordinary() const { return ordinary_; }
  const Tree& other() const { return other_; }
  // Ordinary tokens of at most `characters` (1 to kMostRun of Pushdown) characters.
  const TokenBits& up_to(int characters) const { return up_to_[static_cast<std::size_t>(characters - 1)]; }
  std::size_t longest() const { return longest_; }  // bytes of a token

 private:
  std::vector<std::string> texts_;
  Tree ordinary_, other_;
  std::vector<TokenBits> up_to_;
  std::size_t longest_ = 0;
};

}  // namespace stoa::constraint
