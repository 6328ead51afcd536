// A byte n-gram with interpolated Witten-Bell smoothing: the baseline that a language model must beat.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace stoa::eval {

// P_k(c | h_k) = (N(h_k c) + T(h_k) P_{k-1}(c | h_{k-1})) / (N(h_k) + T(h_k)), where h_k are the last k
// bytes, N counts in the training text and T is the number of different bytes seen after h_k; a context never
// seen leaves P_{k-1}; P_{-1} is uniform over the 256 bytes (Witten and Bell 1991; Chen and Goodman 1998,
// section 2.4, interpolated).
class ByteNgram {
 public:
  static constexpr int kMaxOrder = 7;
  // Order n: contexts of up to n - 1 bytes. The first bytes of a text have shorter ones. ConfigError outside
  // 1 … kMaxOrder.
  explicit ByteNgram(int order = 5);

  void train(std::string_view text);  // may be called several times: texts on their own
  // P(byte | the last order - 1 bytes of `history`).
  double probability(std::string_view history, unsigned char byte) const;
  // Sum of -log2 P over the bytes of `text`, each after those before it in this text.
  double bits(std::string_view text) const;
  int order() const { return order_; }

 private:
  // Counts by a 64-bit key, never 0: open addressing, at most half full.
  class Counts {
   public:
    Counts();
    std::uint32_t get(std::uint64_t key) const;
    std::uint32_t add(std::uint64_t key);  // the count before

   private:
    struct Entry {
      std::uint64_t key;
      std::uint32_t count;
    };
    std::size_t find(std::uint64_t key) const;
    std::vector<Entry> entries_;
    std::size_t used_ = 0;
  };

  int order_;
  Counts sequences_;           // N(h c)
  Counts totals_, followers_;  // N(h), T(h)
};

}  // namespace stoa::eval
