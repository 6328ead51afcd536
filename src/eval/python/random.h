// Python's random.Random, bit for bit: lm-evaluation-harness draws its shots, its bootstraps and the texts of
// made tasks with it.
// Facts: CPython, Lib/random.py and Modules/_randommodule.c.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
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
  // random.randint: uniform in [low, high].
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
  }
  std::uint32_t word() { return static_cast<std::uint32_t>(engine_()); }  // getrandbits(32)
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (std::size_t i = list.size(); i-- > 1;) std::swap(list[i], list[below(i + 1)]);
  }
  // Indices that random.sample(population of n, count) takes, in its order; count <= n.
  std::vector<std::size_t> sample(std::size_t n, std::size_t count);

 private:
  std::mt19937 engine_;
};

// numpy.random.RandomState(seed).randint(low, high), high excluded.
class NumpyRandom {
 public:
  explicit NumpyRandom(std::uint64_t seed) : engine_(static_cast<std::uint32_t>(seed)) {}
  std::int64_t integer(std::int64_t low, std::int64_t high);

 private:
  std::mt19937 engine_;
};

}  // namespace stoa::eval
