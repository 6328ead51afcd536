#include "ops/cpu/short_conv_kernels.h"

#include "ops/cpu/simd_math.h"

namespace stoa::ops::cpu::STOA_ISA {
namespace {

// Rows of the columns of a call, by tap or by token number modulo taps.
struct ConvRows {
  alignas(64) float data[ConvArgs::kMostTaps][ConvArgs::kColumns];
  float* operator[](std::int64_t i) { return data[i]; }
  void clear() {
    for (auto& row : data)
      for (float& x : row) x = 0;
  }
};

void read_weights(const ConvArgs& a, const ConvTask& task, ConvRows& weights) {
  weights.clear();
  for (std::int64_t c = 0; c < task.count; ++c)
    for (std::int64_t j = 0; j < a.taps; ++j) weights[j][c] = a.weight[(task.begin + c) * a.taps + j];
}

template <class E>
STOA_INLINE void read_columns(const Rows& rows, std::int64_t row, const ConvTask& task, float* to) {
  const auto* x = row_of<E>(rows, row) + task.begin;
  for_vectors(task.count, [&](std::int64_t i, auto part) { store(to + i, E::get(x + i, part)); });
}

// The sum before SiLU; `window` holds the inputs of tokens token - taps + 1 ... token.
STOA_INLINE F weighed(ConvRows& window, ConvRows& weights, std::int64_t token, std::int64_t taps,
                      std::int64_t column) {
  F sum{};
  for (std::int64_t j = 0; j < taps; ++j)
    sum = fma(load(weights[j] + column), load(window[(token + 1 + j) % taps] + column), sum);
  return sum;
}

template <class E>
void forward_columns(const ConvArgs& a, const ConvTask& task) {
  ConvRows weights, window;
  read_weights(a, task, weights);
  window.clear();
  const std::int64_t reach = a.taps - 1;
  // Token t is in window[t mod taps]; the state has tokens -reach to -1, the latest last.
  for (std::int64_t j = 0; j < reach && task.state; ++j)
    for (std::int64_t c = 0; c < task.count; ++c)
      window[(j + 1) % a.taps][c] = task.state[j * a.columns + task.begin + c];
  for (std::int64_t t = 0; t < task.tokens; ++t) {
    read_columns<E>(a.x, task.first + t, task, window[t % a.taps]);
    auto* y = row_of<E>(a.y, task.first + t) + task.begin;
    for_vectors(task.count, [&](std::int64_t i, auto part) {
      const F sum = weighed(window, weights, t, a.taps, i);
      E::put(y + i, sum * sigmoid(sum), part);
    });
  }
  for (std::int64_t j = 0; j < reach && task.state; ++j)
    for (std::int64_t c = 0; c < task.count; ++c)
      task.state[j * a.columns + task.begin + c] = window[(task.tokens + j + 1) % a.taps][c];
}

template <class E>
void backward_columns(const ConvArgs& a, const ConvTask& task) {
  ConvRows weights, window, slopes, sums;  // slopes: gradients of the sums before SiLU
  read_weights(a, task, weights);
  window.clear(), slopes.clear(), sums.clear();
  const std::int64_t reach = a.taps - 1;
  float dy[ConvArgs::kColumns];
  for (std::int64_t t = 0; t < task.tokens + reach; ++t) {
    const bool inside = t < task.tokens;
    float* slope = slopes[t % a.taps];
    if (inside) {
      read_columns<E>(a.x, task.first + t, task, window[t % a.taps]);
      read_columns<E>(a.dy, task.first + t, task, dy);
    }
    for (std::int64_t i = 0; i < task.count; i += kLanes) {
      if (!inside) {
        store(slope + i, F{});
        continue;
      }
      const F sum = weighed(window, weights, t, a.taps, i), s = sigmoid(sum);
      const F d = load(dy + i) * fma(sum * s, 1.0f - s, s);
      store(slope + i, d);
      for (std::int64_t j = 0; j < a.taps; ++j)
        store(sums[j] + i, fma(d, load(window[(t + 1 + j) % a.taps] + i), load(sums[j] + i)));
    }
    const std::int64_t done = t - reach;  // its gradient has come from all tokens that saw it
    if (done < 0) continue;
    auto* dx = row_of<E>(a.dx, task.first + done) + task.begin;
    for_vectors(task.count, [&](std::int64_t i, auto part) {
      F sum{};
      for (std::int64_t j = 0; j < a.taps; ++j)
        sum = fma(load(weights[reach - j] + i), load(slopes[(done + j) % a.taps] + i), sum);
      E::put(dx + i, sum, part);
    });
  }
  for (std::int64_t c = 0; c < task.count; ++c)
    for (std::int64_t j = 0; j < a.taps; ++j) a.dweight[(task.begin + c) * a.taps + j] += sums[j][c];
}

void forward_conv(const ConvArgs& args, const ConvTask& task) {
  with_type(args.x.type, [&](auto type) { forward_columns<decltype(type)>(args, task); });
}
void backward_conv(const ConvArgs& args, const ConvTask& task) {
  with_type(args.x.type, [&](auto type) { backward_columns<decltype(type)>(args, task); });
}

}  // namespace

const ConvKernels& short_conv_kernels() {
  static constexpr ConvKernels kTable{forward_conv, backward_conv};
  return kTable;
}

}  // namespace stoa::ops::cpu::STOA_ISA
