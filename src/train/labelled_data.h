// The data sets of a labelled task (model.task): files of JSON lines, read whole.
#pragma once

#include <stop_token>

#include "data/builder.h"
#include "token/tokenizer.h"
#include "train/training_plan.h"

namespace stoa::train {

// Files of model.data: one list that splits_string cuts by lines, or a list per split. `samples`: of the
// training data; unset = one epoch. ConfigError, IoError, DataError (a line without label, an unknown label),
// Interrupted (stop requested).
data::DatasetTriple build_labelled_data(const RunConfig& config, const TrainingPlan& plan,
                                        const token::Tokenizer* tokenizer,
                                        std::optional<std::int64_t> samples, const data::Notice& notice,
                                        const std::stop_token& stop = {});

}  // namespace stoa::train
