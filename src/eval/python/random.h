// Python's random.Random, bit for bit: lm-evaluation-harness draws its shots and its bootstraps with it.
// Facts: CPython, Lib/random.py and Modules/_randommodule.c.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace stoa::eval {

class PythonRandom {
 public:
  // random.Random(seed) of an integer.
  explicit PythonRandom(std::uint64_t seed);

  double random();                        // [0, 1), 53 bits
  std::uint64_t below(std::uint64_t n);   // uniform in [0, n), n >= 1
  std::size_t choice_of(std::size_t n) {  // an index as random.choices draws it
    return static_cast<std::size_t>(random() * static_cast<double>(n));
  }
  // Indices that random.sample(population of n, count) takes, in its order; count <= n.
  std::vector<std::size_t> sample(std::size_t n, std::size_t count);

 private:
  std::mt19937 engine_;
};

}  // namespace stoa::eval
