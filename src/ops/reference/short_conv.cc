#include <cmath>

#include "ops/reference/reference_backend.h"
#include "ops/reference/sequences.h"

namespace stoa::ops {
namespace {

// Inputs of a text with those before it: row i of `history` + tokens.
struct Window {
  const Values& x;
  const Values& before;  // [K - 1, C], or empty
  std::int64_t first, columns, reach;
  double operator()(std::int64_t token, std::int64_t column) const {
    if (token >= 0) return x[(first + token) * columns + column];
    return before.empty() ? 0 : before[(reach + token) * columns + column];
  }
};

double silu(double x) { return x / (1 + std::exp(-x)); }
double silu_slope(double x) {
  const double s = 1 / (1 + std::exp(-x));
  return s + x * s * (1 - s);
}

}  // namespace

void ReferenceBackend::execute(const ShortConvForward& op, Resources) {
  const Values x = load(op.x), weight = load(op.weight);
  Values y(x.size()), state = load(op.state);
  const std::int64_t columns = op.x.shape[1], taps = op.weight.shape[1], reach = taps - 1;
  for_each_text(op.texts, op.x.rows(), [&](std::int64_t text, std::int64_t first, std::int64_t tokens) {
    Values before;
    if (op.state)
      before.assign(state.begin() + text * reach * columns, state.begin() + (text + 1) * reach * columns);
    const Window in{x, before, first, columns, reach};
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t c = 0; c < columns; ++c) {
        double sum = 0;
        for (std::int64_t j = 0; j < taps; ++j) sum += weight[c * taps + j] * in(t - reach + j, c);
        y[(first + t) * columns + c] = silu(sum);
      }
    for (std::int64_t j = 0; j < reach && op.state; ++j)
      for (std::int64_t c = 0; c < columns; ++c)
        state[(text * reach + j) * columns + c] = in(tokens - reach + j, c);
  });
  store(y, op.y);
  store(state, op.state);
}

void ReferenceBackend::execute(const ShortConvBackward& op, Resources) {
  const Values x = load(op.x), weight = load(op.weight), dy = load(op.dy);
  Values dx(x.size()), dweight = op.accumulate ? load(op.dweight) : Values(weight.size());
  const std::int64_t columns = op.x.shape[1], taps = op.weight.shape[1], reach = taps - 1;
  for_each_text(op.texts, op.x.rows(), [&](std::int64_t, std::int64_t first, std::int64_t tokens) {
    const Values none;
    const Window in{x, none, first, columns, reach};
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t c = 0; c < columns; ++c) {
        double sum = 0;
        for (std::int64_t j = 0; j < taps; ++j) sum += weight[c * taps + j] * in(t - reach + j, c);
        const double dsum = dy[(first + t) * columns + c] * silu_slope(sum);
        for (std::int64_t j = std::max<std::int64_t>(0, reach - t); j < taps; ++j) {
          dx[(first + t - reach + j) * columns + c] += dsum * weight[c * taps + j];
          dweight[c * taps + j] += dsum * in(t - reach + j, c);
        }
      }
  });
  store(dx, op.dx);
  store(dweight, op.dweight);
}

}  // namespace stoa::ops
