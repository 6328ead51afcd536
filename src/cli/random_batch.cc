#include "cli/random_batch.h"

#include <algorithm>

#include "base/philox.h"
#include "cli/plan_config.h"
#include "data/whole_rows.h"

namespace stoa::cli {

train::TrainingPlan plan_random_tokens(train::RunConfig config) {
  config.tokenizer = {};
  const std::int64_t ids = tokenizer_ids(config);
  return plan_open_ended(config, ids);
}

data::Batch random_batch(std::int64_t rows, std::int64_t length, std::int64_t vocabulary, std::uint64_t part,
                         std::int64_t source) {
  const auto key = philox_key(1 + part, RandomPurpose::kTest, "bench");
  const auto word = [&](std::int64_t i) {
    return static_cast<std::int32_t>(philox_word(key, static_cast<std::uint64_t>(i)) %
                                     static_cast<std::uint64_t>(vocabulary));
  };
  return data::whole_rows(
      rows, length, [&](std::int64_t i) { return std::pair(word(i), word(i + rows * length)); }, source);
}

data::Batch random_masked_batch(std::int64_t rows, std::int64_t length, std::int64_t vocabulary,
                                std::uint64_t part, bool natural, const model::ModelConfig& config) {
  const model::TaskConfig& task = config.task;
  const bool last = config.kind == model::ModelKind::kGpt;  // classifies by the last token
  const auto key = philox_key(1 + part, RandomPurpose::kTest, "masked bench");
  std::uint64_t drawn = 0;
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int32_t>(philox_word(key, drawn++) % static_cast<std::uint64_t>(n));
  };
  using model::Task;
  data::Batch batch;
  batch.resize(rows, length, true);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t least = std::max<std::int64_t>(1, length / 8);
    const std::int64_t end = natural ? least + below(length - least + 1) : length;
    const data::BatchRow row = batch.row(r);
    for (std::size_t i = 0; i < static_cast<std::size_t>(length); ++i) {
      const bool inside = static_cast<std::int64_t>(i) < end;
      row.tokens[i] = below(vocabulary);
      row.labels[i] = below(task.type == Task::kLanguageModel       ? vocabulary
                            : task.type == Task::kQuestionAnswering ? end
                                                                    : task.classes());
      row.position_ids[i] = static_cast<std::int32_t>(i);
      row.token_types[i] = 0;
      const bool predicted = task.one_label_per_row() ? static_cast<std::int64_t>(i) == (last ? end - 1 : 0)
                                                      : i > 0 && inside && below(100) < 15;
      row.loss_mask[i] = predicted ? 1.0f : 0.0f;
      batch.valid_tokens += predicted;
    }
    *row.sentence_label = below(task.type == Task::kQuestionAnswering ? end : 2);
    batch.cu_seqlens.insert(batch.cu_seqlens.end(), {0, static_cast<std::int32_t>(end)});
    batch.cu_offsets.push_back(static_cast<std::int32_t>(batch.cu_seqlens.size()));
  }
  return batch;
}

}  // namespace stoa::cli
