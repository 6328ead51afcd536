// What has no kernels on GPUs yet (experts) is refused by name.
#pragma once

#include "ops/backend.h"

namespace stoa::ops::cuda {

using CpuOnlyOps = OpList<RouterForward, CountAssignments, PlaceChoices, LimitExperts, RouterBackward,
                          GroupByExpert, GroupArrivals, GroupedLinearForward, GroupedLinearBackwardInput,
                          GroupedLinearBackwardWeight, ExpertBiasUpdate>;

class CpuOnly : public ForwardOps<CpuOnly, Backend, CpuOnlyOps> {
 public:
  template <class Op>
  void apply(const Op&, Resources) {
    fail<ConfigError>("{}: experts do not run on a GPU yet: use --backend cpu", Op::kName);
  }
  template <class Op>
  std::size_t workspace(const Op&) const {
    return 0;
  }
};

}  // namespace stoa::ops::cuda
