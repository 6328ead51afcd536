// The objective of embedding models (tune/contrastive.h) in a run. A row is a text, the rows of a group
// follow each other. The vectors of a whole global batch are put together from all data-parallel ranks, so
// every text is compared with those of all ranks and microbatches, and the loss is that of one large batch.
#pragma once

#include <vector>

#include "run/training_rank.h"
#include "train/compared_data.h"
#include "train/loss_pass.h"
#include "tune/contrastive.h"

namespace stoa::train {

class ContrastivePass final : public LossPass {
 public:
  struct Options {
    double temperature = 0.05;
    ComparedRows rows;
    std::int64_t largest = 0;  // rows of the largest global batch: a validation compares as many at once
  };
  // `rank` outlives this.
  ContrastivePass(run::TrainingRank& rank, const Options& options);

  // Loss and gradient of every vector; the step divides by the number of queries.
  Measure weigh(data::Batch& batch) override;
  void add(const data::Batch& batch) override;
  Measure take() override;

 private:
  struct Sums {
    double loss = 0, queries = 0, right = 0, positive = 0, others = 0;
    std::span<double> all() { return {&loss, 5}; }
  };
  // Vectors of the rows of all data-parallel ranks, in the order of the global batch; zero on ranks without
  // the head.
  std::vector<double> vectors_of(const data::Batch& batch);
  // Place in the global batch of a row of this rank.
  std::size_t place_of(std::int64_t row) const;
  tune::ContrastiveLoss compare(std::span<const double> vectors, bool gradients, Sums& sums) const;
  // How many of a row's states its vector is the mean of.
  std::int64_t pooled(const data::Batch& batch, std::int64_t row) const;
  Measure measure_of(Sums sums);

  run::TrainingRank& rank_;
  const Options options_;
  const std::int64_t hidden_, ranks_, own_;
  const bool averaged_;
  bool has_head_ = false;  // this rank has seen states
  std::vector<double> validation_;
};

}  // namespace stoa::train
