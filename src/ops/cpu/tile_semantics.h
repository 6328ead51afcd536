// What the tile instructions of AMX do, in plain C++, after the pseudocode of Intel's Software Developer's
// Manual, volume 2 (LDTILECFG, TILEZERO, TILELOADD, TILESTORED, TDPBF16PS, TDPBSSD, TDPBSUD). Tests run the
// tile kernels on it where the processor has no tiles.
//
// In kernel files everything here belongs to the namespace of their instruction set
// (cmake/StoaKernels.cmake).
#pragma once

#include <cstdint>
#include <cstring>

#ifdef STOA_ISA
namespace stoa::ops::cpu::STOA_ISA {
#else
namespace stoa::ops::cpu {
#endif

// The 64 bytes that LDTILECFG reads.
struct TileConfiguration {
  std::uint8_t palette = 0;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfiguration) == 64);

class TileState {
 public:
  static constexpr int kTiles = 8, kRows = 16, kRowBytes = 64;

  // False where the processor raises #GP.
  bool configure(const TileConfiguration& c) {
    configured_ = false;
    if (c.palette != 1 || c.start_row >= kRows) return false;
    for (std::uint8_t x : c.reserved)
      if (x != 0) return false;
    for (int t = 0; t < 16; ++t) {
      const bool used = c.rows[t] != 0 || c.row_bytes[t] != 0;
      if (used && (t >= kTiles || c.rows[t] == 0 || c.rows[t] > kRows || c.row_bytes[t] == 0 ||
                   c.row_bytes[t] > kRowBytes || c.row_bytes[t] % 4 != 0))
        return false;
    }
    configuration_ = c;
    std::memset(words_, 0, sizeof words_);
    configured_ = true;
    return true;
  }
  void release() { configured_ = false; }
  bool configured() const { return configured_; }

  // The others return false where the processor raises #UD.
  bool zero(int tile) {
    if (!usable(tile)) return false;
    std::memset(words_[tile], 0, sizeof words_[tile]);
    return true;
  }
  // Row r of the tile is at `base` + r * `stride`; what the configuration leaves out of a tile becomes 0.
  bool load(int tile, const void* base, std::int64_t stride) {
    if (!zero(tile)) return false;
    for (int r = 0; r < configuration_.rows[tile]; ++r)
      std::memcpy(words_[tile][r], static_cast<const char*>(base) + r * stride,
                  configuration_.row_bytes[tile]);
    return true;
  }
  bool store(int tile, void* base, std::int64_t stride) const {
    if (!usable(tile)) return false;
    for (int r = 0; r < configuration_.rows[tile]; ++r)
      std::memcpy(static_cast<char*>(base) + r * stride, words_[tile][r], configuration_.row_bytes[tile]);
    return true;
  }
  // TDPBF16PS c, a, b. Per element of c: the products of the pairs' first halves are summed with one FMA
  // each, apart from those of the second halves; then the two sums are added, and the result to c. Every step
  // rounds to nearest even, takes subnormal inputs as zero and flushes subnormal results to zero.
  bool multiply_add(int c, int a, int b) {
    if (!fit(c, a, b)) return false;
    const int m = configuration_.rows[c], n = configuration_.row_bytes[c] / 4,
              k = configuration_.row_bytes[a] / 4;
    for (int i = 0; i < m; ++i) {
      float first[16] = {}, second[16] = {};
      for (int u = 0; u < k; ++u) {
        const float x = low(words_[a][i][u]), y = high(words_[a][i][u]);
        for (int j = 0; j < n; ++j) {
          first[j] = flushed(__builtin_fmaf(x, low(words_[b][u][j]), first[j]));
          second[j] = flushed(__builtin_fmaf(y, high(words_[b][u][j]), second[j]));
        }
      }
      for (int j = 0; j < n; ++j) {
        const float sum = flushed(flushed(first[j] + second[j]) + flushed(number(words_[c][i][j])));
        std::memcpy(&words_[c][i][j], &sum, 4);
      }
      for (int j = n; j < 16; ++j) words_[c][i][j] = 0;
    }
    return true;
  }

  // TDPBSSD c, a, b: words of four signed bytes; sums wrap around. TDPBSUD: those of b are unsigned.
  bool multiply_add_bytes(int c, int a, int b, bool unsigned_b = false) {
    if (!fit(c, a, b)) return false;
    const int k = configuration_.row_bytes[a] / 4, n = configuration_.row_bytes[c] / 4;
    for (int i = 0; i < configuration_.rows[c]; ++i) {
      for (int j = 0; j < n; ++j)
        for (int u = 0; u < k; ++u)
          for (int byte = 0; byte < 4; ++byte) {
            const int y = signed_byte(words_[b][u][j], byte);
            words_[c][i][j] +=
                static_cast<std::uint32_t>(signed_byte(words_[a][i][u], byte) * (unsigned_b ? y & 0xff : y));
          }
      for (int j = n; j < 16; ++j) words_[c][i][j] = 0;
    }
    return true;
  }

 private:
  bool usable(int tile) const { return configured_ && configuration_.rows[tile] != 0; }
  // May c += a b be computed?
  bool fit(int c, int a, int b) const {
    if (!usable(a) || !usable(b) || !usable(c) || a == b || a == c || b == c) return false;
    const auto& s = configuration_;
    return s.rows[a] == s.rows[c] && s.row_bytes[b] / 4 == s.row_bytes[c] / 4 &&
           s.rows[b] == s.row_bytes[a] / 4;
  }
  static int signed_byte(std::uint32_t word, int byte) {
    return static_cast<std::int8_t>(static_cast<std::uint8_t>(word >> (8 * byte)));
  }
  static float number(std::uint32_t bits) {
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
  }
  static float flushed(float x) {
    std::uint32_t bits;
    std::memcpy(&bits, &x, 4);
    return number((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
  }
  static float low(std::uint32_t pair) { return flushed(number(pair << 16)); }
  static float high(std::uint32_t pair) { return flushed(number(pair & 0xffff0000u)); }

  bool configured_ = false;
  TileConfiguration configuration_;
  std::uint32_t words_[kTiles][kRows][16];
};

}  // namespace
