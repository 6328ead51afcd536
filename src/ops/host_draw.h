// Tokens chosen from a row of logits on the host: the results of MostLikely and of DrawTokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/token_draw.h"

namespace stoa::ops {

// The id of the largest logit; of equal ones the lowest.
std::int32_t likeliest(std::span<const float> logits);

// How people describe a draw. Without cuts all tokens may be drawn.
struct DrawOptions {
  double temperature = 1;           // above 0
  std::int64_t top_k = 0;           // 0: all
  double top_p = 1, min_p = 0;      // tokens at least min_p times as likely as the most likely
  bool min_p_first = false;         // before top_k and top_p
  bool cuts_at_temperature = true;  // false: cuts are those of temperature 1
};
// Without the row and the word.
TokenDraw token_draw(const DrawOptions& options);

// Keeps its memory from one draw to the next.
class HostDraw {
 public:
  // TokenDraw::row does not count.
  std::int32_t draw(std::span<const float> logits, const TokenDraw& draw);
  // Whether each token may be drawn, as far as the cuts say: kept[id].
  void keep(std::span<const float> logits, const TokenDraw& draw, std::vector<bool>& kept);

 private:
  struct Mass {
    std::uint64_t cut = 0, drawn = 0;  // sums of weights
    std::int64_t tokens = 0;
  };
  struct Place {
    std::int32_t id = 0;
    Mass reached;  // by the tokens up to this one
  };

  // The sums of what the cuts leave; 0 tokens: the logits are not finite, and nothing was counted.
  Mass cut(std::span<const float> logits, const TokenDraw& draw);
  void forget();
  void count(std::span<const float> logits);
  Mass mass_of(float logit, std::uint32_t distance) const;
  static std::uint64_t drawn_of(const Mass& mass);
  // The first token up to which `measure` exceeds `passed`.
  template <class Measure>
  Place find(std::span<const float> logits, std::uint64_t passed, const Measure& measure);

  TokenDraw draw_;
  float highest_ = 0;
  int bits_ = 0;  // weight_bits()
  std::vector<std::uint32_t> distances_;
  std::vector<Mass> bins_;  // of tokens by their distances
  std::vector<std::int32_t> ids_;
};

}  // namespace stoa::ops
