// Loops that the compiler turns into vectors: they read and write o once, and attention does far more.
#include <cmath>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/operands.h"

namespace stoa::ops::cpu {
namespace {

// In 16 lanes, added up in order: a sum that any compiler vectorises in one and the same way.
template <class T>
float dot(const T* a, const T* b, std::int64_t count) {
  constexpr std::int64_t kLanes = 16;
  float lanes[kLanes] = {}, sum = 0;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::int64_t l = 0; l < kLanes; ++l)
      lanes[l] += static_cast<float>(a[i + l]) * static_cast<float>(b[i + l]);
  for (; i < count; ++i) sum += static_cast<float>(a[i]) * static_cast<float>(b[i]);
  for (const float lane : lanes) sum += lane;
  return sum;
}

}  // namespace

void CpuBackend::execute(const AttentionSink& op, Resources resources) {
  if (needs_reference(op)) return ReferenceBackend::execute(op, resources);
  const std::int64_t heads = op.o.shape[1], d = op.o.shape[2];
  const float* sinks = op.sinks.as<float>();
  float* lse = op.lse.as<float>();
  with_float(op.o.dtype, [&]<class T>() {
    T* o = op.o.as<T>();
    run_pieces(pool_, op.lse.elements(), rows_per_task(d), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const float sink = sinks[r % heads], top = std::max(lse[r], sink);
        const float keys = std::exp(lse[r] - top), sum = keys + std::exp(sink - top), share = keys / sum;
        for (T* x = o + r * d; x < o + (r + 1) * d; ++x) *x = T(static_cast<float>(*x) * share);
        lse[r] = top + std::log(sum);
      }
    });
  });
}

void CpuBackend::execute(const AttentionSinkBackward& op, Resources resources) {
  if (needs_reference(op)) return ReferenceBackend::execute(op, resources);
  const std::int64_t tokens = op.o.shape[0], heads = op.o.shape[1], d = op.o.shape[2];
  const float *sinks = op.sinks.as<float>(), *lse = op.lse.as<float>();
  float* dsinks = op.dsinks.as<float>();
  with_float(op.o.dtype, [&]<class T>() {
    const T *o = op.o.as<T>(), *dout = op.dout.as<T>();
    pool_.run(heads, [&](std::int64_t h, int) {
      float sum = 0;
      for (std::int64_t t = 0; t < tokens; ++t) {
        const std::int64_t r = t * heads + h;
        sum += std::exp(sinks[h] - lse[r]) * dot(dout + r * d, o + r * d, d);
      }
      dsinks[h] = op.accumulate ? dsinks[h] - sum : -sum;
    });
  });
}

}  // namespace stoa::ops::cpu
