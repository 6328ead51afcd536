// What a rank holds of a model that several ranks run together.
#pragma once

#include <memory>
#include <vector>

#include "device/device.h"
#include "parallel/expert_place.h"
#include "parallel/parallel_context.h"
#include "parallel/tensor_place.h"

namespace stoa::infer {

struct RankShare {
  grid::RankGrid grid = grid::RankGrid::single();
  int rank = 0;
  bool exact_sum = false;  // parallel::TensorPlace::exact
  // This rank's; null where the grid has one rank, and on a meta machine.
  std::shared_ptr<const parallel::ParallelContext> context = nullptr;

  int ranks() const { return grid.size(); }
  parallel::TensorPlace tensor_place() const;
  parallel::ExpertPlace expert_place() const;
  int stages() const { return grid.degree(parallel::Axis::kPipeline); }
  int stage() const { return grid.coordinate(rank, parallel::Axis::kPipeline); }
  bool first_stage() const { return stage() == 0; }            // has the embedding
  bool last_stage() const { return stage() == stages() - 1; }  // has the head
  // The model's layers of this rank's stage; the first stage has as many as any.
  parallel::Part layers(std::int64_t all) const { return parallel::part_of(all, stages(), stage()); }
  // The ranks that together have the logits of all ids, in the order of the ids.
  std::vector<int> holders() const;
  // By which a rank with memory on `device` reaches the others; on a meta device it counts what they send.
  std::shared_ptr<const parallel::ParallelContext> context_on(Device& device) const;
};

}  // namespace stoa::infer
