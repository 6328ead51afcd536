#include <algorithm>
#include <cmath>

#include "ops/reference/reference_backend.h"
#include "ops/reference/values.h"

namespace stoa::ops {

void ReferenceBackend::execute(const AttentionSink& op, Resources) {
  const std::size_t heads = static_cast<std::size_t>(op.o.shape[1]),
                    d = static_cast<std::size_t>(op.o.shape[2]);
  const Values sinks = load(op.sinks);
  Values o = load(op.o), lse = load(op.lse);
  for (std::size_t r = 0; r < lse.size(); ++r) {
    const double sink = sinks[r % heads], top = std::max(lse[r], sink);
    const double keys = std::exp(lse[r] - top), sum = keys + std::exp(sink - top);
    for (std::size_t i = r * d; i < (r + 1) * d; ++i) o[i] *= keys / sum;
    lse[r] = top + std::log(sum);
  }
  store(o, op.o);
  store(lse, op.lse);
}

void ReferenceBackend::execute(const AttentionSinkBackward& op, Resources) {
  const std::size_t heads = static_cast<std::size_t>(op.o.shape[1]),
                    d = static_cast<std::size_t>(op.o.shape[2]);
  const Values sinks = load(op.sinks), o = load(op.o), dout = load(op.dout), lse = load(op.lse);
  Values dsinks = op.accumulate ? load(op.dsinks) : Values(heads);
  for (std::size_t r = 0; r < lse.size(); ++r) {
    double sum = 0;
    for (std::size_t i = r * d; i < (r + 1) * d; ++i) sum += dout[i] * o[i];
    dsinks[r % heads] -= std::exp(sinks[r % heads] - lse[r]) * sum;
  }
  store(dsinks, op.dsinks);
}

}  // namespace stoa::ops
