// Attention sinks (Xiao et al. 2024, section 3.2; as gpt-oss trains them, 2508.10925, section 2.2): a learned
// logit per head takes part in the softmax of every query and adds nothing to its output.
//
// Attention without it gives o and lse; with it they are o e^(lse - lse') and lse' = ln(e^lse + e^sink),
// which needs no key. Attention's backward pass with these two covers the sink as well: the probabilities
// are e^(score - lse'), and as a sink's value is zero, the sum of do · o is unchanged. So the sink is
// applied only once, after all keys (context parallelism), and the attention kernels need no support for
// it.
#pragma once

#include "ops/access.h"

namespace stoa::ops {

struct AttentionSink {
  static constexpr const char* kName = "attention sink";
  TensorView sinks;  // [H] accumulation type
  TensorView o;      // [T, H, d]
  TensorView lse;    // [T, H] accumulation type; -inf where a query saw no key

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("sinks", a.sinks, Access::kRead);
    f("o", a.o, Access::kReadWrite);
    f("lse", a.lse, Access::kReadWrite);
  }
};

// dsinks[h] = - sum over t of e^(sinks[h] - lse[t, h]) dout[t, h] · o[t, h], added to what is there where it
// accumulates; o and lse with the sink.
struct AttentionSinkBackward {
  static constexpr const char* kName = "attention sink backward";
  TensorView sinks;    // [H]
  TensorView o, dout;  // [T, H, d]
  TensorView lse;      // [T, H]
  TensorView dsinks;   // [H] accumulation type
  bool accumulate = true;

  template <class Self, class F>
  static void visit(Self& a, F&& f) {
    f("sinks", a.sinks, Access::kRead);
    f("o", a.o, Access::kRead);
    f("dout", a.dout, Access::kRead);
    f("lse", a.lse, Access::kRead);
    f("dsinks", a.dsinks, a.accumulate ? Access::kReadWrite : Access::kWrite);
  }
};

}  // namespace stoa::ops
