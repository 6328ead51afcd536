#include "ops/attention_sink.h"

#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/kernels/attention_sink.h"
#include "ops/cuda/operands.h"

namespace stoa::ops::cuda {
namespace {

template <class Op>
AttentionSinkArgs sink_of(const Op& op) {
  AttentionSinkArgs args;
  args.type = fast_element_of(Op::kName, op.o);
  args.tokens = op.o.shape[0], args.heads = op.o.shape[1], args.width = op.o.shape[2];
  args.sinks = op.sinks.template as<float>();
  args.o = op.o.data, args.lse = op.lse.template as<float>();
  return args;
}

}  // namespace

void CudaBackend::execute(const AttentionSink& op, Resources resources) {
  launch_attention_sink(sink_of(op), native_stream(resources.stream));
}

void CudaBackend::execute(const AttentionSinkBackward& op, Resources resources) {
  AttentionSinkArgs args = sink_of(op);
  args.dout = op.dout.data, args.dsinks = op.dsinks.as<float>();
  args.accumulate = op.accumulate;
  launch_attention_sink_backward(args, native_stream(resources.stream));
}

}  // namespace stoa::ops::cuda
