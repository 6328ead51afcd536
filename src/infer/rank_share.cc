#include "infer/rank_share.h"

#include "base/error.h"
#include "parallel/meta_contexts.h"

namespace stoa::infer {

using parallel::Axis;

parallel::TensorPlace RankShare::tensor_place() const {
  return {grid.coordinate(rank, Axis::kTensor), grid.degree(Axis::kTensor), false, exact_sum};
}

parallel::ExpertPlace RankShare::expert_place() const {
  const grid::RankGrid experts = grid.experts();
  return {experts.coordinate(rank, Axis::kExpert),
          experts.degree(Axis::kExpert),
          experts.coordinate(rank, Axis::kTensor),
          experts.degree(Axis::kTensor),
          grid.degree(Axis::kTensor),
          true};
}

std::vector<int> RankShare::holders() const {
  std::vector<int> out;
  for (int r = 0; r < ranks(); ++r)
    if (grid.coordinate(r, Axis::kPipeline) == stages() - 1 && grid.coordinate(r, Axis::kData) == 0)
      out.push_back(r);
  return out;
}

std::shared_ptr<const parallel::ParallelContext> RankShare::context_on(Device& device) const {
  if (ranks() == 1)
    return std::make_shared<parallel::ParallelContext>(parallel::ParallelContext::single(device));
  if (device.kind() == DeviceKind::kMeta)
    return std::make_shared<parallel::ParallelContext>(parallel::make_meta_context(grid, rank, device));
  require<InternalError>(context != nullptr, "rank {} of {} has no context", rank, ranks());
  return context;
}

}  // namespace stoa::infer
