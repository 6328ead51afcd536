#include "eval/results/sha256.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace stoa::eval {
namespace {

// The first 32 bits of the fractional parts of roots of the first primes.
template <std::size_t N>
std::array<std::uint32_t, N> root_bits(double (*root)(double)) {
  std::array<std::uint32_t, N> out{};
  std::size_t n = 0;
  for (int p = 2; n < N; ++p) {
    bool prime = true;
    for (int d = 2; d * d <= p; ++d) prime = prime && p % d != 0;
    if (!prime) continue;
    const double r = root(p);
    out[n++] = static_cast<std::uint32_t>((r - std::floor(r)) * 4294967296.0);
  }
  return out;
}

void add_block(std::array<std::uint32_t, 8>& state, const std::uint8_t* block) {
  static const auto kRounds = root_bits<64>([](double x) { return std::cbrt(x); });
  std::array<std::uint32_t, 64> w{};
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t b = 0; b < 4; ++b) w[i] = w[i] << 8 | block[4 * i + b];
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
  }
  auto s = state;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t e = s[4], a = s[0];
    const std::uint32_t t1 = s[7] + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                             ((e & s[5]) ^ (~e & s[6])) + kRounds[i] + w[i];
    const std::uint32_t t2 =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    s = {t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
  }
  for (std::size_t i = 0; i < 8; ++i) state[i] += s[i];
}

}  // namespace

std::string sha256(std::string_view text) {
  auto state = root_bits<8>([](double x) { return std::sqrt(x); });
  std::string padded(text);
  padded += '\x80';
  while (padded.size() % 64 != 56) padded += '\0';
  const std::uint64_t bits = std::uint64_t{text.size()} * 8;
  for (int shift = 56; shift >= 0; shift -= 8) padded += static_cast<char>(bits >> shift);
  for (std::size_t at = 0; at < padded.size(); at += 64)
    add_block(state, reinterpret_cast<const std::uint8_t*>(padded.data()) + at);
  std::string out;
  for (const std::uint32_t word : state) out += fmt::format("{:08x}", word);
  return out;
}

}  // namespace stoa::eval
