// The data sets of a run, from its configuration and plan: used by the trainer and, to show the same samples,
// by `stoa data show`.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "ckpt/grown_rows.h"
#include "data/builder.h"
#include "token/tokenizer.h"
#include "train/compared_data.h"
#include "train/starting_point.h"
#include "train/training_plan.h"

namespace stoa::train {

// The plan of a run with its data, together: with max_epochs the plan depends on the length of an epoch.
struct PlannedData {
  TrainingPlan plan;
  data::DatasetTriple datasets;
  // Number of samples for which each part of the training data was built. Megatron's order of samples
  // depends on that number, so a part is never rebuilt: a run that is extended, or ends sooner, keeps the
  // order of the samples it has seen and of those planned. Samples beyond that are a new part with a seed of
  // its own.
  std::vector<std::int64_t> parts;
  std::set<token::TokenId> turn_ends = {};  // of chats: generation stops at them
  ComparedRows compared = {};               // of an embedding model
};
// `done`: the state in the checkpoint from which the run resumes.
PlannedData plan_with_data(const RunConfig& config, const token::Tokenizer* tokenizer,
                           const data::Notice& notice = {}, const std::stop_token& stop = {},
                           const ckpt::TrainingState* done = nullptr);

// Shared by all ranks of a process.
struct RunInputs {
  std::optional<token::Tokenizer> tokenizer;
  ckpt::NewTokens added_tokens;  // by a chat template
  PlannedData data;
  StartingPoint start;
};
std::shared_ptr<const RunInputs> read_inputs(const RunConfig& config, StartingPoint start,
                                             const data::Notice& notice, const std::stop_token& stop = {});

// The settings that determine which samples a run sees, by key: stored in checkpoints, so that a run that
// resumes with different settings reports it.
std::map<std::string, std::string> data_settings(const RunConfig& config, const PlannedData& data);

// The rows of a data rank within a global batch: its microbatches in order.
std::vector<std::int64_t> rows_of_rank(const std::vector<std::int64_t>& global, std::int64_t micro_batch,
                                       int data_ranks, int data_rank);

// The training samples of the step that begins after `consumed` samples.
std::vector<std::int64_t> samples_of_step(const TrainingPlan& plan, const data::Dataset& train,
                                          std::int64_t consumed);

}  // namespace stoa::train
