// Training on random tokens, for benchmarks.
#pragma once

#include <cstdint>

#include "data/batch.h"
#include "model/config.h"
#include "train/training_plan.h"

namespace stoa::cli {

// Without a tokenizer, and not to its end (plan_open_ended()).
train::TrainingPlan plan_random_tokens(train::RunConfig config);

// `part`: ranks with different data have different tokens. `source`: of pairs (data/whole_rows.h).
data::Batch random_batch(std::int64_t rows, std::int64_t length, std::int64_t vocabulary,
                         std::uint64_t part = 0, std::int64_t source = 0);

// For a model that works on labelled tokens (model::Traits): 15 % of the tokens are to be predicted or have a
// class, or the one by which a row is classified, as its task has it. `natural`: rows end early, after an
// eighth to all of `length` tokens; else all are full.
data::Batch random_masked_batch(std::int64_t rows, std::int64_t length, std::int64_t vocabulary,
                                std::uint64_t part, bool natural, const model::ModelConfig& config);

}  // namespace stoa::cli
