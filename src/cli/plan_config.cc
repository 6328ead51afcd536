#include "cli/plan_config.h"

#include <algorithm>

#include "train/layout_plan.h"
#include "train/tokenizer_choice.h"

namespace stoa::cli {

MachineOptions planning_options(const train::RunConfig& config, MachineOptions given) {
  if (!given.threads) given.threads = config.trainer.num_threads;
  given.ranks = std::max(1, train::ranks_of(config) / static_cast<int>(config.trainer.num_nodes.value_or(1)));
  return given;
}

std::int64_t tokenizer_ids(train::RunConfig& config) {
  const train::RunTokenizer run = train::load_run_tokenizer(config);
  train::train_added_rows(config.model.peft, run.added);
  if (run.tokenizer) return run.tokenizer->vocab_size();
  if (!config.model.vocab_size) config.model.vocab_size = model::kVocabWithoutTokenizer;
  return 0;
}

// As if the configuration asked for this precision.
void set_format(plan::Format format, train::RunConfig& config) {
  if (format == plan::Format::kFp8) {
    if (!config.model.fp8.fp8) config.model.fp8.fp8 = model::Fp8Format::kHybrid;
    return;
  }
  config.model.fp8.fp8.reset();
  config.trainer.precision = format == plan::Format::kFp32   ? train::Precision::kFp32
                             : format == plan::Format::kFp16 ? train::Precision::kFp16
                                                             : train::Precision::kBf16;
}

train::TrainingPlan plan_open_ended(const train::RunConfig& config, std::int64_t tokenizer_ids) {
  return train::plan_training(config, tokenizer_ids, config.trainer.max_steps.value_or(1000000));
}

}  // namespace stoa::cli
