#include "ops/cuda/kernels/few_tokens.h"
#include "ops/cuda/kernels/launch.h"

namespace stoa::ops::cuda {
namespace {

// A block owns 16 rows of the weights, its warps share their columns. Rows of weights are operand a of the
// matrix units, tokens are operand b. A lane reads eight neighbours of a row at once: which of the columns of
// a product they count as does not matter, as long as both operands agree.
template <class T, class Out, int kTiles>
struct FewTokensKernel {
  using Args = FewTokensArgs;
  static constexpr const char* kName = "product of a few tokens";
  static constexpr int kThreads = 512;
  static constexpr int kRows = 16, kStep = 32, kAhead = 4, kTokens = 8 * kTiles;

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const int g = t.lane() / 4, quarter = t.lane() % 4;
    const std::int64_t first = t.block_x() * kRows;
    const auto at = [](const void* data, std::int64_t i) { return static_cast<const T*>(data) + i; };
    float sums[kTiles][4] = {};
    const std::int64_t apart = std::int64_t{kStep} * t.warps();
    for (std::int64_t begin = std::int64_t{kStep} * t.warp(); begin < a.columns; begin += kAhead * apart) {
      Bytes16 rows[kAhead][2], tokens[kAhead][kTiles];
      STOA_UNROLL
      for (int i = 0; i < kAhead; ++i) {
        const std::int64_t column = begin + i * apart + 8 * quarter;
        STOA_UNROLL
        for (int half = 0; half < 2; ++half) {
          const std::int64_t row = first + g + 8 * half;
          rows[i][half] =
              row < a.rows && column < a.columns ? load16(at(a.w, row * a.w_stride + column)) : Bytes16{};
        }
        STOA_UNROLL
        for (int tile = 0; tile < kTiles; ++tile) {
          const std::int64_t token = 8 * tile + g;
          tokens[i][tile] = token < a.tokens && column < a.columns
                                ? load16(at(a.x, token * a.x_stride + column))
                                : Bytes16{};
        }
      }
      STOA_UNROLL
      for (int i = 0; i < kAhead; ++i) {
        STOA_UNROLL
        for (int w = 0; w < 4; w += 2) {
          const std::uint32_t left[4] = {rows[i][0].words[w], rows[i][1].words[w], rows[i][0].words[w + 1],
                                         rows[i][1].words[w + 1]};
          STOA_UNROLL
          for (int tile = 0; tile < kTiles; ++tile)
            t.multiply<T>(left, tokens[i][tile].words[w], tokens[i][tile].words[w + 1], sums[tile]);
        }
      }
    }
    auto* const parts = t.shared<float>();  // of every warp: [kTokens, kRows]
    STOA_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      STOA_UNROLL
      for (int n = 0; n < 4; ++n)
        parts[(t.warp() * kTokens + 8 * tile + 2 * quarter + n % 2) * kRows + g + n / 2 * 8] = sums[tile][n];
    }
    t.sync();
    for (int i = t.index(); i < kTokens * kRows; i += t.count()) {
      const std::int64_t token = i / kRows, row = first + i % kRows;
      if (token >= a.tokens || row >= a.rows) continue;
      float sum = 0;
      for (int w = 0; w < t.warps(); ++w) sum += parts[w * kTokens * kRows + i];
      if (a.bias) sum += a.bias[row];
      narrow(sum, static_cast<Out*>(a.y)[token * a.y_stride + row]);
    }
  }
};

}  // namespace

void launch_few_tokens(const FewTokensArgs& a, void* stream) {
  // Matrices of few rows have few blocks: more warps then share the columns of one.
  const int warps = a.rows < 4096 && a.columns >= 1024 ? 16 : 8;
  const auto start = [&](auto type, auto out, auto tiles) {
    using Kernel = FewTokensKernel<decltype(type), decltype(out), decltype(tiles)::value>;
    launch<Kernel>(
        {.x = ceil_div(a.rows, Kernel::kRows),
         .threads = 32 * warps,
         .shared = sizeof(float) * static_cast<std::size_t>(warps * Kernel::kTokens * Kernel::kRows)},
        stream, a);
  };
  const auto with_tokens = [&](auto type, auto out) {
    if (a.tokens <= 8)
      start(type, out, Width<1>{});
    else
      start(type, out, Width<2>{});
  };
  const auto with_result = [&](auto type) {
    if (a.result == Element::kF32)
      with_tokens(type, float{});
    else
      with_tokens(type, type);
  };
  if (a.type == Element::kBF16)
    with_result(bf16{});
  else
    with_result(f16{});
}

}  // namespace stoa::ops::cuda
