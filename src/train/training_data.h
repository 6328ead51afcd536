// The data sets of a run: from its configuration and plan, as the trainer reads them. `stoa data show` reads
// the same.
#pragma once

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

// The training samples of the step that begins after `consumed` samples.
std::vector<std::int64_t> samples_of_step(const TrainingPlan& plan, const data::Dataset& train,
                                          std::int64_t consumed);

}  // namespace stoa::train
