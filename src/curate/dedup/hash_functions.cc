#include "curate/dedup/hash_functions.h"

#include <xxhash.h>

#include <bit>

namespace stoa::curate {
namespace {

std::uint32_t permuted(std::uint32_t h, std::uint32_t a, std::uint32_t b) { return h * a + b; }
std::uint64_t permuted(std::uint64_t h, std::uint64_t a, std::uint64_t b) {
  std::uint64_t v = h * a + b;
  v = (v & kPrime61) + (v >> 61);
  return v >= kPrime61 ? v - kPrime61 : v;
}

// The loop is compiled for several instruction sets: products are what it lives of.
template <class Word>
[[gnu::always_inline]] inline void lower_minima(const Word* a, const Word* b, std::size_t count, Word h,
                                                Word* minima) {
  for (std::size_t i = 0; i < count; ++i) {
    const Word v = permuted(h, a[i], b[i]);
    minima[i] = v < minima[i] ? v : minima[i];
  }
}
template <class Word>
void lower_minima_plain(const Word* a, const Word* b, std::size_t count, Word h, Word* minima) {
  lower_minima(a, b, count, h, minima);
}
#if defined(__x86_64__)
template <class Word>
[[gnu::target("avx2")]] void lower_minima_avx2(const Word* a, const Word* b, std::size_t count, Word h,
                                               Word* minima) {
  lower_minima(a, b, count, h, minima);
}
template <class Word>
[[gnu::target("avx512f,avx512dq,avx512vl,prefer-vector-width=512")]] void lower_minima_avx512(
    const Word* a, const Word* b, std::size_t count, Word h, Word* minima) {
  lower_minima(a, b, count, h, minima);
}
#endif

}  // namespace

std::uint64_t draw_below(std::mt19937& random, std::uint64_t low, std::uint64_t high, bool wide) {
  const std::uint64_t range = high - 1 - low, mask = std::bit_ceil(range + 1) - 1;
  for (;;) {
    std::uint64_t value = random();
    if (wide) value = value << 32 | random();
    value &= mask;
    if (value <= range) return low + value;
  }
}

template <class Word>
LowerMinima<Word> choose_lower_minima() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return lower_minima_avx512<Word>;
  if (__builtin_cpu_supports("avx2")) return lower_minima_avx2<Word>;
#endif
  return lower_minima_plain<Word>;
}
template LowerMinima<std::uint32_t> choose_lower_minima<std::uint32_t>();
template LowerMinima<std::uint64_t> choose_lower_minima<std::uint64_t>();

void append_band_keys(std::span<const std::uint64_t> signature, std::int64_t hashes_per_band,
                      std::vector<std::uint64_t>& keys) {
  const auto per_band = static_cast<std::size_t>(hashes_per_band);
  for (std::size_t band = 0; band * per_band < signature.size(); ++band)
    keys.push_back(
        XXH3_64bits_withSeed(signature.data() + band * per_band, per_band * sizeof(std::uint64_t), band));
}

}  // namespace stoa::curate
