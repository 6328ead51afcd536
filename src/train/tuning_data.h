// The data sets of a run on chats (model.data.chat): files read once, whatever number of samples is asked
// for.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <stop_token>

#include "data/builder.h"
#include "token/tokenizer.h"
#include "train/training_plan.h"
#include "tune/tuning_files.h"

namespace stoa::train {

class TuningData {
 public:
  // Reads and encodes. ConfigError: no files, weights, a kind of model that has no chats; IoError, DataError,
  // Interrupted.
  TuningData(const RunConfig& config, const token::Tokenizer* tokenizer, const data::Notice& notice,
             const std::stop_token& stop);

  // `rows`: of the training data; unset = one epoch.
  data::DatasetTriple build(const RunConfig& config, const TrainingPlan& plan,
                            std::optional<std::int64_t> rows) const;
  // Tokens that end answers: generation stops at them.
  const std::set<token::TokenId>& turn_ends() const { return turn_ends_; }

 private:
  std::shared_ptr<const tune::EncodedFiles> training_, validation_;  // the second may be none
  std::vector<std::string> sources_;
  std::set<token::TokenId> turn_ends_;
  std::int32_t pad_ = 0;
  std::optional<std::int32_t> unscored_;  // ChatDataset::Options
};

}  // namespace stoa::train
