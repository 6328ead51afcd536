// Mixtures of experts have no kernels on GPUs yet: a model with experts is refused by name.
#pragma once

#include "ops/backend.h"

namespace stoa::ops::cuda {

using ExpertOps =
    OpList<RouterForward, RouterBackward, GroupByExpert, GatherRows, SumRows, ScaleRows, ScaleRowsBackward,
           GroupedLinearForward, GroupedLinearBackwardInput, GroupedLinearBackwardWeight>;

class WithoutExperts : public ForwardOps<WithoutExperts, Backend, ExpertOps> {
 public:
  template <class Op>
  void apply(const Op&, Resources) {
    fail<ConfigError>("{}: models with experts do not run on a GPU yet: use --backend cpu", Op::kName);
  }
  template <class Op>
  std::size_t workspace(const Op&) const {
    return 0;
  }
};

}  // namespace stoa::ops::cuda
