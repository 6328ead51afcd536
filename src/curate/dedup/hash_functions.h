// The functions h a + b of a hash h whose minima over a text are a MinHash signature.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace stoa::curate {

inline constexpr std::uint64_t kPrime31 = (std::uint64_t{1} << 31) - 1,
                               kPrime61 = (std::uint64_t{1} << 61) - 1;

// One number in [low, high), as numpy.random.RandomState.randint draws it for 32 bits or, `wide`, for 64.
std::uint64_t draw_below(std::mt19937& random, std::uint64_t low, std::uint64_t high, bool wide);

// Lowers each of `count` minima to h a + b where that is less: of 32 bits modulo 2^32, of 64 bits modulo 2^64
// and then 2^61 - 1.
template <class Word>
using LowerMinima = void (*)(const Word* a, const Word* b, std::size_t count, Word h, Word* minima);
// The fastest that this processor runs. Word: std::uint32_t or std::uint64_t.
template <class Word>
LowerMinima<Word> choose_lower_minima();

// A hash of each band of a signature, to the end of `keys`.
void append_band_keys(std::span<const std::uint64_t> signature, std::int64_t hashes_per_band,
                      std::vector<std::uint64_t>& keys);

}  // namespace stoa::curate
