// The part of numpy's RandomState that Megatron's data order is made of, reproduced bit for bit.
// Facts: the 32-bit stream of RandomState(seed) is std::mt19937(seed); shuffle is Fisher-Yates with masked
// rejection (numpy/random/mtrand.pyx `shuffle`, distributions.c `random_interval`).
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <utility>

namespace stoa::data {

class NumpyRandom {
 public:
  explicit NumpyRandom(std::uint32_t seed) : engine_(seed) {}

  std::uint32_t next_u32() { return static_cast<std::uint32_t>(engine_()); }
  std::uint64_t next_u64();                       // two draws, the first is the high half
  double next_double();                           // [0, 1), 53 bits: random_sample()
  std::uint64_t interval(std::uint64_t maximum);  // uniform in [0, maximum]

  // Trials up to the first success, each with probability p, 0 < p <= 1: RandomState.geometric.
  std::int64_t geometric(double p);

  // RandomState.shuffle on a one-dimensional array.
  template <class T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i-- > 1;) std::swap(values[i], values[interval(i)]);
  }

 private:
  std::mt19937 engine_;
};

}  // namespace stoa::data
