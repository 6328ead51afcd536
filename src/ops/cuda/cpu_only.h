// What has no kernels on GPUs yet (experts, latent attention, rows moved between context-parallel ranks) is
// refused by name.
#pragma once

#include "ops/backend.h"

namespace stoa::ops::cuda {

using CpuOnlyOps =
    OpList<CopyRows, AttentionMerge, LatentHeads, LatentHeadsBackward, RouterForward, CountAssignments,
           PlaceChoices, LimitExperts, RouterBackward, GroupByExpert, GroupArrivals, GatherRows, SumRows,
           ScaleRows, ScaleRowsBackward, GroupedLinearForward, GroupedLinearBackwardInput,
           GroupedLinearBackwardWeight, ExpertBiasUpdate, MuonMomentum, UnitNorm, Combine, MuonUpdate>;

class CpuOnly : public ForwardOps<CpuOnly, Backend, CpuOnlyOps> {
 public:
  template <class Op>
  void apply(const Op&, Resources) {
    fail<ConfigError>(
        "{}: experts, latent attention, context parallelism and Muon do not run on a GPU yet: use --backend "
        "cpu",
        Op::kName);
  }
  template <class Op>
  std::size_t workspace(const Op&) const {
    return 0;
  }
};

}  // namespace stoa::ops::cuda
