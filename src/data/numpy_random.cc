#include "data/numpy_random.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace stoa::data {

std::uint64_t NumpyRandom::next_u64() {
  const std::uint64_t high = next_u32();
  return high << 32 | next_u32();
}

double NumpyRandom::next_double() {
  const std::uint32_t a = next_u32() >> 5, b = next_u32() >> 6;
  return (a * 67108864.0 + b) / 9007199254740992.0;
}

std::uint64_t NumpyRandom::interval(std::uint64_t maximum) {
  if (maximum == 0) return 0;
  const std::uint64_t mask = ~std::uint64_t{0} >> std::countl_zero(maximum);
  std::uint64_t value;
  if (maximum <= 0xffffffffu) {
    do value = next_u32() & mask;
    while (value > maximum);
  } else {
    do value = next_u64() & mask;
    while (value > maximum);
  }
  return value;
}

// Two formulas, each for its p: they round differently (numpy's legacy-distributions.c and distributions.c).
std::int64_t NumpyRandom::geometric(double p) {
  const double u = next_double();
  if (p < 1.0 / 3)
    return std::max<std::int64_t>(1, std::llround(std::ceil(std::log1p(-u) / std::log(1 - p))));
  std::int64_t trials = 1;
  double sum = p, product = p;
  for (const double q = 1 - p; u > sum; ++trials) sum += product *= q;
  return trials;
}

}  // namespace stoa::data
