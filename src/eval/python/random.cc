#include "eval/python/random.h"

#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "base/error.h"

namespace stoa::eval {
namespace {

// The state that init_by_array makes of the words of a seed, handed to an engine word by word.
class SeededState {
 public:
  using result_type = std::uint32_t;
  explicit SeededState(std::uint64_t seed) {
    std::array<std::uint32_t, 2> key{static_cast<std::uint32_t>(seed),
                                     static_cast<std::uint32_t>(seed >> 32)};
    const std::size_t length = key[1] != 0 ? 2 : 1;
    state_[0] = 19650218U;
    for (std::size_t i = 1; i < kWords; ++i)
      state_[i] = 1812433253U * (state_[i - 1] ^ (state_[i - 1] >> 30)) + static_cast<std::uint32_t>(i);
    std::size_t i = 1, j = 0;
    const auto next = [&] {
      if (++i >= kWords) state_[0] = state_[kWords - 1], i = 1;
    };
    for (std::size_t k = kWords; k > 0; --k) {
      state_[i] = (state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30)) * 1664525U)) + key[j] +
                  static_cast<std::uint32_t>(j);
      j = (j + 1) % length;
      next();
    }
    for (std::size_t k = kWords - 1; k > 0; --k) {
      state_[i] = (state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30)) * 1566083941U)) -
                  static_cast<std::uint32_t>(i);
      next();
    }
    state_[0] = 0x80000000U;
  }
  // What std::mt19937 asks a seed sequence for: its 624 words.
  template <class Iterator>
  void generate(Iterator begin, Iterator end) const {
    for (std::size_t i = 0; begin != end; ++begin, ++i) *begin = state_[i % kWords];
  }

 private:
  static constexpr std::size_t kWords = 624;
  std::array<std::uint32_t, kWords> state_{};
};

std::mt19937 engine_of(std::uint64_t seed) {
  SeededState state(seed);
  return std::mt19937(state);
}

}  // namespace

PythonRandom::PythonRandom(std::uint64_t seed) : engine_(engine_of(seed)) {}

double PythonRandom::random() {
  const std::uint64_t high = engine_() >> 5, low = engine_() >> 6;
  return (static_cast<double>(high) * 67108864.0 + static_cast<double>(low)) * (1.0 / 9007199254740992.0);
}

std::uint64_t PythonRandom::below(std::uint64_t n) {
  require<InternalError>(n >= 1 && n <= UINT32_MAX, "a number below {}", n);
  const int bits = static_cast<int>(std::bit_width(n));
  std::uint64_t drawn = n;
  while (drawn >= n) drawn = engine_() >> (32 - bits);
  return drawn;
}

std::int64_t NumpyRandom::integer(std::int64_t low, std::int64_t high) {
  const auto most = static_cast<std::uint64_t>(high - low - 1);
  require<InternalError>(high > low && most < UINT32_MAX, "a number from {} to {}", low, high);
  const auto mask = static_cast<std::uint32_t>(std::bit_ceil(most + 1) - 1);
  std::uint64_t drawn = engine_() & mask;
  while (drawn > most) drawn = engine_() & mask;
  return low + static_cast<std::int64_t>(drawn);
}

std::vector<std::size_t> PythonRandom::sample(std::size_t n, std::size_t count) {
  require<InternalError>(count <= n, "{} of {} to be drawn", count, n);
  std::size_t small = 21;
  if (count > 5) {
    std::size_t power = 1;  // 4 ** ceil(log(3 count, 4))
    const double exponent = std::ceil(std::log(3.0 * static_cast<double>(count)) / std::log(4.0));
    for (int i = 0; i < static_cast<int>(exponent); ++i) power *= 4;
    small += power;
  }
  std::vector<std::size_t> out;
  if (n <= small) {
    std::vector<std::size_t> pool(n);
    std::iota(pool.begin(), pool.end(), std::size_t{0});
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t j = below(n - i);
      out.push_back(pool[j]);
      pool[j] = pool[n - i - 1];
    }
    return out;
  }
  std::unordered_set<std::size_t> taken;
  while (out.size() < count)
    if (const std::size_t j = below(n); taken.insert(j).second) out.push_back(j);
  return out;
}

}  // namespace stoa::eval
