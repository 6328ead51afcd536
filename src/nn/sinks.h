// The sinks of an attention layer (ops/attention_sink.h) on their way through core attention.
#pragma once

#include "nn/pass.h"
#include "ops/attention.h"
#include "ops/attention_sink.h"

namespace stoa::nn {

struct Sinks {
  TensorView values = {};    // [H]; none: the layer has no sinks
  TensorView gradient = {};  // [H], of a backward pass; none: frozen
  bool accumulate = true;    // into it

  explicit operator bool() const { return static_cast<bool>(values); }
  // Those of some of the heads.
  Sinks of_heads(std::int64_t first, std::int64_t count) const {
    if (!values) return {};
    return {values.slice(first, count), gradient ? gradient.slice(first, count) : gradient, accumulate};
  }
  // After all keys of the queries: o and lse as with the sinks.
  void enter(Pass& pass, const TensorView& o, const TensorView& lse) const {
    if (values) ops::run(pass.ops, ops::AttentionSink{.sinks = values, .o = o, .lse = lse});
  }
  void add_gradient(Pass& pass, const ops::AttentionBackward& op) const {
    if (gradient)
      ops::run(pass.ops, ops::AttentionSinkBackward{.sinks = values,
                                                    .o = op.o,
                                                    .dout = op.dout,
                                                    .lse = op.lse,
                                                    .dsinks = gradient,
                                                    .accumulate = accumulate});
  }
};

}  // namespace stoa::nn
