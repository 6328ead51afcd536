#include <cstring>

#include "ops/reference/reference_backend.h"

namespace stoa::ops {
namespace {

// Bytes of the parts of a head.
struct Widths {
  std::size_t rope, own, value, whole;
  Widths(const TensorView& kv, const TensorView& shared, const TensorView& k) {
    const std::size_t size = size_of(k.dtype);
    rope = static_cast<std::size_t>(shared.shape[1]) * size;
    whole = static_cast<std::size_t>(k.shape[2]) * size;
    own = whole - rope;
    value = static_cast<std::size_t>(kv.shape[2]) * size - own;
  }
};

std::byte* head_of(const TensorView& x, std::int64_t token, std::int64_t head) {
  return static_cast<std::byte*>(x.byte_offset(token * x.stride0 + head * x.shape[2]));
}

template <class T>
void add_heads(const TensorView& dk, const TensorView& drope) {
  using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;  // of which T is made
  for (std::int64_t t = 0; t < dk.rows(); ++t)
    for (std::int64_t i = 0; i < drope.shape[1]; ++i) {
      double sum = 0;
      for (std::int64_t h = 0; h < dk.shape[1]; ++h)
        sum += static_cast<double>(static_cast<Sum>(dk.row<T>(t)[h * dk.shape[2] + i]));
      drope.row<T>(t)[i] = T(static_cast<Sum>(sum));
    }
}

}  // namespace

void ReferenceBackend::execute(const LatentHeads& op, Resources) {
  const Widths w(op.kv, op.rope, op.k);
  for (std::int64_t t = 0; t < op.k.rows(); ++t)
    for (std::int64_t h = 0; h < op.k.shape[1]; ++h) {
      std::byte *k = head_of(op.k, t, h), *v = head_of(op.v, t, h);
      const std::byte* kv = head_of(op.kv, t, h);
      std::memcpy(k, op.rope.byte_offset(t * op.rope.stride0), w.rope);
      std::memcpy(k + w.rope, kv, w.own);
      std::memcpy(v, kv + w.own, w.value);
      std::memset(v + w.value, 0, w.whole - w.value);
    }
}

void ReferenceBackend::execute(const LatentHeadsBackward& op, Resources) {
  const Widths w(op.dkv, op.drope, op.dk);
  for (std::int64_t t = 0; t < op.dk.rows(); ++t)
    for (std::int64_t h = 0; h < op.dk.shape[1]; ++h) {
      std::byte* dkv = head_of(op.dkv, t, h);
      std::memcpy(dkv, head_of(op.dk, t, h) + w.rope, w.own);
      std::memcpy(dkv + w.own, head_of(op.dv, t, h), w.value);
    }
  dispatch_float(op.dk.dtype, [&]<class T>() { add_heads<T>(op.dk, op.drope); });
}

}  // namespace stoa::ops
