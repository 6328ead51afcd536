#include "train/labelled_data.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/test_folder.h"
#include "base/test_paths.h"
#include "watch/test_run.h"

namespace stoa::train {
namespace {

TEST(LabelledData, AskedToStopItReadsNoMore) {
  const TestFolder folder;
  const fs::path file = folder.path() / "lines.jsonl";
  write_text(file, "{\"text\": \"the river\", \"label\": \"yes\"}\n");
  const auto tokenizer =
      token::Tokenizer::load(test::source_dir() / "tests/fixtures/token/bert/tokenizer.json");
  RunConfig config;
  config.model.kind = model::ModelKind::kBert;
  config.model.task.type = model::Task::kSequenceClassification;
  config.model.task.labels = {"no", "yes"};
  config.data.data_prefix.train = {{1, file.string()}};
  TrainingPlan plan{.options = {}, .batch = optim::BatchPlan(1, 1, {})};
  plan.options.length = 16;
  EXPECT_EQ(build_labelled_data(config, plan, &tokenizer, 3, {}).train->size(), 3);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(build_labelled_data(config, plan, &tokenizer, 3, {}, stop.get_token()), Interrupted);
}

}  // namespace
}  // namespace stoa::train
