// Gradients of which every rank of a tensor-parallel group has a part of the sum: norms that saw some of the
// rows (sequence parallelism) or heads, keys and values of a head that several ranks share, the halves of a
// low-rank branch that its layer's split does not concern; of adapted experts within their group of parts.
#pragma once

#include "nn/param.h"
#include "ops/op_context.h"

namespace stoa::nn {

// Makes `gradient`, in the local shape of the parameter, whole on every rank that holds a copy: the parts are
// added in the order of ranks. Every rank of the group calls it, for its parameters in the same order.
// Nothing happens to others than those of grad_partial_over.
void sum_partial_gradient(ops::OpContext& ops, const parallel::ParallelContext& parallel,
                          const ParamSpec& spec, TensorView gradient);

}  // namespace stoa::nn
