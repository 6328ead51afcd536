// The data sets of an embedding model: texts that belong together (tune/record.h), a row each, those of a
// record after each other. Files are read once, whatever number of rows is asked for.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "data/builder.h"
#include "data/labelled_dataset.h"
#include "token/tokenizer.h"
#include "train/training_plan.h"

namespace stoa::train {

// What an objective that compares texts needs to know of the rows.
struct ComparedRows {
  std::int64_t texts = 1;      // of a record: so many rows are a group
  std::int64_t held_back = 0;  // rows for validation; those that follow repeat them
};

class ComparedData {
 public:
  // Reads and encodes. ConfigError: no files, or a model that makes no vectors; IoError, DataError,
  // Interrupted.
  ComparedData(const RunConfig& config, const token::Tokenizer* tokenizer, const data::Notice& notice,
               const std::stop_token& stop);

  // `rows`: of the training data; unset = one epoch. ConfigError: a batch that divides records, or in which a
  // query has nothing to be compared with.
  data::DatasetTriple build(const RunConfig& config, const TrainingPlan& plan,
                            std::optional<std::int64_t> rows) const;
  const ComparedRows& rows() const { return rows_; }

 private:
  std::vector<data::LabelledRow> training_, validation_;
  std::vector<std::string> sources_;
  std::int32_t pad_ = 0;
  ComparedRows rows_;
};

}  // namespace stoa::train
