// The data sets of a run: from its configuration and plan, as the trainer reads them. `stoa data show` reads
// the same.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "data/builder.h"
#include "token/tokenizer.h"
#include "train/training_plan.h"

namespace stoa::train {

// The plan of a run with its data: for max_epochs the length of an epoch has to be known before the plan is.
struct PlannedData {
  TrainingPlan plan;
  data::DatasetTriple datasets;
};
PlannedData plan_with_data(const RunConfig& config, const token::Tokenizer* tokenizer,
                           const data::Notice& notice = {});

// What all ranks of a process share.
struct RunInputs {
  std::optional<token::Tokenizer> tokenizer;
  PlannedData data;
};
std::shared_ptr<const RunInputs> read_inputs(const RunConfig& config, const data::Notice& notice = {});

// Of the rows of a global batch those of one data rank: its microbatches in order.
std::vector<std::int64_t> rows_of_rank(const std::vector<std::int64_t>& global, std::int64_t micro_batch,
                                       int data_ranks, int data_rank);

// The training samples of the step that begins after `consumed` samples.
std::vector<std::int64_t> samples_of_step(const TrainingPlan& plan, const data::Dataset& train,
                                          std::int64_t consumed);

}  // namespace stoa::train
