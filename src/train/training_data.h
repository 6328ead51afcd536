// The data sets of a run: from its configuration and plan, as the trainer reads them. `stoa data show` reads
// the same.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "ckpt/find_checkpoint.h"
#include "data/builder.h"
#include "token/tokenizer.h"
#include "train/training_plan.h"

namespace stoa::train {

// The plan of a run with its data: for max_epochs the length of an epoch has to be known before the plan is.
struct PlannedData {
  TrainingPlan plan;
  data::DatasetTriple datasets;
  // Samples that each part of the training data was made for. Megatron's order of samples depends on how many
  // are asked for, so a part stays as it was first made: a run that is to go on for longer, or to end sooner,
  // sees what it has seen and what was planned in the order that was planned. What goes beyond is a part of
  // its own, with a seed of its own.
  std::vector<std::int64_t> parts;
};
// `done`: of the checkpoint that the run resumes from.
PlannedData plan_with_data(const RunConfig& config, const token::Tokenizer* tokenizer,
                           const data::Notice& notice = {}, const std::stop_token& stop = {},
                           const ckpt::TrainingState* done = nullptr);

// The checkpoint that a run of this configuration resumes from; none: it begins. ConfigError where there is
// one and the configuration does not want to resume, or the other way round.
std::optional<ckpt::FoundCheckpoint> checkpoint_to_resume(const RunConfig& config,
                                                          ckpt::Verify verify = ckpt::Verify::kAll);

// What all ranks of a process share.
struct RunInputs {
  std::optional<token::Tokenizer> tokenizer;
  PlannedData data;
  std::optional<ckpt::FoundCheckpoint> resume;  // from here, its checksums right
};
// `from`: this checkpoint instead of checkpoint_to_resume().
std::shared_ptr<const RunInputs> read_inputs(const RunConfig& config, const data::Notice& notice = {},
                                             const std::stop_token& stop = {},
                                             const std::optional<fs::path>& from = {});

// What decides which samples a run sees, by key: kept with a checkpoint, so that a run that continues with
// something else says so.
std::map<std::string, std::string> data_settings(const RunConfig& config, const PlannedData& data);

// Of the rows of a global batch those of one data rank: its microbatches in order.
std::vector<std::int64_t> rows_of_rank(const std::vector<std::int64_t>& global, std::int64_t micro_batch,
                                       int data_ranks, int data_rank);

// The training samples of the step that begins after `consumed` samples.
std::vector<std::int64_t> samples_of_step(const TrainingPlan& plan, const data::Dataset& train,
                                          std::int64_t consumed);

}  // namespace stoa::train
