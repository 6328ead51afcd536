#include "quant/nf4.h"

#include <algorithm>
#include <cmath>

namespace stoa::quant {
namespace {

// The nearest of ascending values; the lower one of two that are as near. The middle of two is rounded to
// fp32, as that of bitsandbytes is: numbers next to it get the same code.
std::uint8_t nearest_of(std::span<const float> values, float x) {
  const auto above = std::lower_bound(values.begin(), values.end(), x);
  if (above == values.begin()) return 0;
  if (above == values.end()) return static_cast<std::uint8_t>(values.size() - 1);
  const auto index = static_cast<std::uint8_t>(above - values.begin());
  return x > (*(above - 1) + *above) / 2 ? index : static_cast<std::uint8_t>(index - 1);
}

std::array<float, 256> make_dynamic_values() {
  constexpr int kDecades = 7;
  std::array<float, 256> out{};
  std::size_t n = 0;
  for (int decade = 0; decade < kDecades; ++decade) {
    const int parts = 1 << decade;
    const double power = std::pow(10.0, decade - (kDecades - 1));
    const auto boundary = [&](int i) { return static_cast<float>(0.1 + 0.9 * i / parts); };
    for (int i = 0; i < parts; ++i) {
      const float middle = (boundary(i) + boundary(i + 1)) / 2.0f;
      const auto value = static_cast<float>(power * static_cast<double>(middle));
      out[n++] = value;
      out[n++] = -value;
    }
  }
  out[n++] = 0;
  out[n++] = 1;
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

// Quantiles of a normal distribution, scaled to [-1, 1] (2305.14314, appendix E).
const std::array<float, 16>& nf4_values() {
  static constexpr std::array<float, 16> kValues{-1.0f,
                                                 -0.6961928009986877f,
                                                 -0.5250730514526367f,
                                                 -0.39491748809814453f,
                                                 -0.28444138169288635f,
                                                 -0.18477343022823334f,
                                                 -0.09105003625154495f,
                                                 0.0f,
                                                 0.07958029955625534f,
                                                 0.16093020141124725f,
                                                 0.24611230194568634f,
                                                 0.33791524171829224f,
                                                 0.44070982933044434f,
                                                 0.5626170039176941f,
                                                 0.7229568362236023f,
                                                 1.0f};
  return kValues;
}

std::uint8_t nearest_nf4(float x) { return nearest_of(nf4_values(), x); }

const std::array<float, 256>& dynamic_values() {
  static const std::array<float, 256> kValues = make_dynamic_values();
  return kValues;
}

std::uint8_t nearest_dynamic(float x) { return nearest_of(dynamic_values(), x); }

}  // namespace stoa::quant
