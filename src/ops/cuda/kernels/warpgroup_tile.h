// Tiles of matrix products by warpgroups: out[i, j] = sum over p of a[i, p] b[j, p], 16-bit elements, sums in
// fp32. For sm_90a.
#pragma once

#include "ops/cuda/kernels/warpgroup.h"

namespace stoa::ops::cuda {

// An operand in shared memory: kVectors vectors of 64 elements in rows of 128 bytes, whose pieces of 16 bytes
// are exchanged by the 128-byte swizzle: piece c of row r stands at c ^ (r % 8). A row is a vector, or with
// kAcross one element of 64 vectors; panels of 64 vectors follow each other then. It begins at a multiple of
// 1024 bytes.
template <int kVectors, bool kAcross>
struct SwizzledOperand {
  static constexpr int kDepth = 64, kRow = 128, kPattern = 8 * kRow, kPanel = kDepth * kRow;
  static constexpr int kBytes = kVectors * kRow;

  // Where the piece begins whose first element is `element` of `vector`.
  STOA_DEVICE static int place(int vector, int element) {
    const int row = kAcross ? element : vector, piece = (kAcross ? vector % 64 : element) / 8;
    return (kAcross ? vector / 64 * kPanel : 0) + row * kRow + (piece ^ row % 8) * 16;
  }
  // Names the vectors from `first`, a multiple of 64, and 16 elements from `element`. `at`: of the operand.
  STOA_DEVICE static std::uint64_t descriptor(std::uint32_t at, int first, int element) {
    at += static_cast<std::uint32_t>(first / 64 * kPanel + (kAcross ? element * kRow : element * 2));
    constexpr std::uint64_t kLeading = kAcross ? kPanel : 16, kStride = kPattern, kSwizzle128 = 1;
    return (at & 0x3ffffu) >> 4 | kLeading >> 4 << 16 | kStride >> 4 << 32 | kSwizzle128 << 62;
  }
};

// The pieces of 16 bytes of an operand that a thread copies: from the first, every kStep-th vector or, with
// kAcross, element. None beyond the operand's `count` vectors and `depth` elements: zeros stand there.
template <int kVectors, bool kAcross, int kThreads>
struct OperandCopies {
  using Operand = SwizzledOperand<kVectors, kAcross>;
  static constexpr int kPieces = kVectors * Operand::kDepth / 8 / kThreads;
  static constexpr int kStep = kThreads / ((kAcross ? kVectors : Operand::kDepth) / 8);
  static_assert(kStep % 8 == 0, "all pieces of a thread stand at the same place of their rows");
  int vector, element, place;

  STOA_DEVICE explicit OperandCopies(const Thread& t) {
    constexpr int kOfRow = (kAcross ? kVectors : Operand::kDepth) / 8;
    const int row = t.index() / kOfRow, piece = t.index() % kOfRow * 8;
    vector = kAcross ? piece : row, element = kAcross ? row : piece;
    place = Operand::place(vector, element);
  }
  // The first piece of an operand whose vectors, or with kAcross elements, are `stride` apart.
  template <class T>
  STOA_DEVICE const T* first(const T* data, std::int64_t stride) const {
    return data + (kAcross ? element * stride + vector : vector * stride + element);
  }
  // `valid`: any address that can be read.
  template <class T>
  STOA_DEVICE void begin(const Thread& t, const T* from, std::int64_t stride, int count, int depth,
                         const T* valid, unsigned char* operand) const {
    STOA_UNROLL
    for (int n = 0; n < kPieces; ++n) {
      const bool given = kAcross ? vector < count && element + n * kStep < depth
                                 : vector + n * kStep < count && element < depth;
      t.copy16(operand + place + n * kStep * Operand::kRow, given ? from + n * kStep * stride : valid, given);
    }
  }
};

// A block computes every blocks_x()-th tile of some products; two warpgroups have 64 x 256 sums each. While
// operands are multiplied, those of the next two steps are copied, also across the end of a tile.
//
// `Products`: T, kAcrossLeft, kAcrossRight, left_stride, right_stride; count, at(n), which gives a Tile with
// left, right, rows, columns and depth (in any number), skips(tile), and start(t, tile, sums) and finish(t,
// tile, sums), which know that sums stand as multiply_shared() says, rows 64 and on in the second warpgroup.
struct WarpgroupTile {
  static constexpr int kRows = 128, kColumns = 256, kDepth = 64, kThreads = 256, kPlaces = 4;
  static constexpr int kLeft = kRows * kDepth * 2, kPlace = kLeft + kColumns * kDepth * 2;  // bytes
  static constexpr std::size_t kShared = kPlaces * kPlace + 1024;  // it begins at any multiple of 128

  template <class Products>
  STOA_DEVICE static void run(const Thread& t, const Products& products) {
    using T = typename Products::T;
    constexpr bool kAcrossLeft = Products::kAcrossLeft, kAcrossRight = Products::kAcrossRight;
    using Left = SwizzledOperand<kRows, kAcrossLeft>;
    using Right = SwizzledOperand<kColumns, kAcrossRight>;
    auto* places = t.shared<unsigned char>();
    places += (1024 - shared_address(t, places) % 1024) % 1024;
    const std::uint32_t address = shared_address(t, places);
    const OperandCopies<kRows, kAcrossLeft, kThreads> left_copies(t);
    const OperandCopies<kColumns, kAcrossRight, kThreads> right_copies(t);

    // What is copied next.
    const int blocks = static_cast<int>(t.blocks_x());
    int next = static_cast<int>(t.block_x());
    const T *left = nullptr, *right = nullptr;
    int rows = 0, columns = 0, depth = 0, filled = 0;
    const auto find = [&] {
      for (; next < products.count; next += blocks) {
        const auto tile = products.at(next);
        if (tile.depth == 0) continue;
        left = left_copies.first(tile.left, products.left_stride);
        right = right_copies.first(tile.right, products.right_stride);
        rows = tile.rows, columns = tile.columns, depth = tile.depth;
        return;
      }
    };
    const auto copy = [&] {
      if (next < products.count) {
        unsigned char* place = places + filled * kPlace;
        left_copies.begin(t, left, products.left_stride, rows, depth, products.left, place);
        right_copies.begin(t, right, products.right_stride, columns, depth, products.right, place + kLeft);
        filled = filled == kPlaces - 1 ? 0 : filled + 1;
        left += kAcrossLeft ? kDepth * products.left_stride : kDepth;
        right += kAcrossRight ? kDepth * products.right_stride : kDepth;
        depth -= kDepth;
        if (depth <= 0) {
          next += blocks;
          find();
        }
      }
      t.commit_copies();
    };
    find();
    STOA_UNROLL
    for (int n = 0; n < kPlaces - 2; ++n) copy();

    const int first_row = t.warp() / 4 * 64;
    int turn = 0;
    for (int n = static_cast<int>(t.block_x()); n < products.count; n += blocks) {
      const auto tile = products.at(n);
      if (products.skips(tile)) continue;
      float sums[128];
      products.start(t, tile, sums);
      fence_sums(t, sums);
      for (int p = 0; p < tile.depth; p += kDepth) {
        t.template wait_copies<kPlaces - 3>();
        fence_for_products(t);
        t.sync();  // this place is complete, and the products of the last but one are too
        const std::uint32_t a = address + static_cast<std::uint32_t>(turn * kPlace), b = a + kLeft;
        // Not in a branch, not even without rows for this warpgroup: the compiler would wait for each
        // product.
        fence_registers(t);
        STOA_UNROLL
        for (int q = 0; q < kDepth; q += 16)
          multiply_shared<T, kAcrossLeft, kAcrossRight>(t, Left::descriptor(a, first_row, q),
                                                        Right::descriptor(b, 0, q), sums);
        commit_products(t);
        copy();
        wait_products<1>(t);
        turn = turn == kPlaces - 1 ? 0 : turn + 1;
      }
      wait_sums(t, sums);
      products.finish(t, tile, sums);
    }
    t.template wait_copies<0>();
  }
};

}  // namespace stoa::ops::cuda
