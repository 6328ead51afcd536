// Runs that go on with something else than they began with, and saves by the clock.
#include <gmock/gmock.h>

#include "base/file.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Resume : public Workplace {
 protected:
  // The samples of a step, as `data show` tells them; of a run that has checkpoints, as it goes on.
  nlohmann::json samples(std::int64_t step, const Arguments& more) const {
    Arguments arguments = train("", more);
    arguments.front() = "show";
    return json_of(Arguments{"data"} + arguments +
                   Arguments{"--step", std::to_string(step), "--json"})["rows"];
  }
};

TEST_F(Resume, ByDefaultNothingIsSavedBeforeTenMinutesAndAllByTheClockIfAsked) {
  for (const char* ranks : {"1", "2"}) {
    const std::string run = std::string("clock-") + ranks;
    stoa_ok(train(run, {"trainer.max_steps=5", "--ranks", ranks,
                        "exp_manager.checkpoint_callback_params.train_time_interval=0.001s",
                        "exp_manager.checkpoint_callback_params.save_top_k=-1"}));
    EXPECT_EQ(checkpoints(run), (std::vector<std::string>{"step-0000001", "step-0000002", "step-0000003",
                                                          "step-0000004", "step-0000005"}));
  }
  stoa_ok(train("plain", {"trainer.max_steps=5"}));
  expect_same("plain", "clock-1");
  EXPECT_EQ(checkpoints("plain"), (std::vector<std::string>{"step-0000005"}));
}

TEST_F(Resume, ASmallerBatchGoesOnToTheLastStep) {
  const Arguments first{"trainer.max_steps=20", "--stop-after", "10"};
  stoa_ok(train("run", first));
  const Outcome outcome =
      stoa_ok(train("run", {"trainer.max_steps=20", "model.global_batch_size=2", "model.seed=99"}));
  EXPECT_THAT(outcome.err, HasSubstr("RESUMED step-10"));
  EXPECT_THAT(outcome.err, HasSubstr("model.global_batch_size changed from 4 to 2"));
  EXPECT_THAT(outcome.err, HasSubstr("model.seed changed from 1234 to 99"));
  const auto curve = metrics("run");
  ASSERT_EQ(curve.size(), 20u);
  EXPECT_EQ(curve.at(20)["samples"], 60);
  // The rate ends where the run does, not where its samples would have ended at the batch of now.
  EXPECT_GT(curve.at(19)["lr"].get<double>(), curve.at(20)["lr"].get<double>());
  EXPECT_GT(curve.at(11)["lr"].get<double>(), 2 * curve.at(20)["lr"].get<double>());
}

TEST_F(Resume, OtherDataAndSplitsAreSaid) {
  stoa_ok(train("run", {"trainer.max_steps=4", "--stop-after", "2"}));
  stoa_ok(
      {"data", "prepare", "text.jsonl", "--tokenizer", "tok", "--output", "more/data", "--no-append-eod"});
  const Outcome outcome = stoa_ok(
      train("run", {"trainer.max_steps=4", "model.data=more/data", "model.data.splits_string='80,20,0'"}));
  EXPECT_THAT(outcome.err, HasSubstr("model.data.splits_string changed from 90,10,0 to 80,20,0"));
  EXPECT_THAT(outcome.err, HasSubstr("model.data changed from data "));
  EXPECT_THAT(stoa_ok(train("run", {"trainer.max_steps=4", "model.data=more/data",
                                    "model.data.splits_string='80,20,0'"}))
                  .err,
              Not(HasSubstr(" changed from ")));
}

TEST_F(Resume, GoingOnForLongerReshufflesNothingThatWasSeenOrPlanned) {
  const std::string few = "trainer.max_steps=12", many = "trainer.max_steps=4000";
  stoa_ok(train("run", {few}));
  for (const std::int64_t step : {1, 7, 12}) {
    const auto planned = samples(step, {few});
    EXPECT_EQ(samples(step, {many, "--output", "run"}), planned) << "step " << step;
  }
  EXPECT_NE(samples(7, {many}), samples(7, {few})) << "a longer plan alone has another order";
  // And it trains on, over the end of what was planned, twice.
  for (const char* steps : {"trainer.max_steps=300", "trainer.max_steps=600"})
    EXPECT_THAT(stoa_ok(train("run", {steps})).err, Not(HasSubstr(" changed from ")));
  EXPECT_EQ(metrics("run").size(), 600u);
  EXPECT_EQ(samples(299, {"trainer.max_steps=300", "--output", "run"}),
            samples(299, {"trainer.max_steps=600", "--output", "run"}));
}

TEST_F(Resume, RanksSumUpWhatTheyWrite) {
  stoa_ok(train("two", {"--ranks", "2", "model.tensor_model_parallel_size=2", "trainer.max_steps=2"}));
  EXPECT_EQ(json_of({"checkpoint", "verify", "two", "--json"})["ok"], true);
  const auto files = json_of({"checkpoint", "inspect", "two", "--json"})["files"];
  std::size_t sums = 0;
  for (const auto& file : files) {
    const bool state = file["path"].get<std::string>().find("optimizer") != std::string::npos;
    EXPECT_EQ(file.contains("crc32"), state) << file;
    sums += state ? 1 : 0;
  }
  EXPECT_EQ(sums, 1u);
  // A flipped bit is found.
  const fs::path weights = path("two/checkpoints/step-0000002/state/optimizer.safetensors");
  std::string bytes = read_text(weights);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_text(weights, bytes);
  EXPECT_THAT(stoa({"checkpoint", "verify", "two"}).err, HasSubstr("optimizer.safetensors: checksum"));
}

// In bf16 what is frozen has no master: a checkpoint holds the value itself.
TEST_F(Resume, FrozenParametersKeepEveryBit) {
  const auto frozen = [&](const std::string& run, const Arguments& more) {
    return train(run, Arguments{"trainer.precision=bf16", "model.freeze=[embedding, layers.0]"} + more);
  };
  const Arguments four{"trainer.max_steps=4"}, stopped = four + Arguments{"--stop-after", "2"},
                                               two{"--ranks", "2", "model.zero_stage=3"};
  EXPECT_THAT(stoa_ok(frozen("whole", four)).text(), HasSubstr(" of them trained"));
  stoa_ok(frozen("half", stopped));
  EXPECT_THAT(stoa_ok(frozen("half", four)).err, HasSubstr("RESUMED step-2"));
  expect_same("whole", "half");
  stoa_ok(frozen("two", four + two));
  stoa_ok(frozen("two halves", stopped + two));
  stoa_ok(frozen("two halves", four + two));
  expect_same("two", "two halves");
  stoa_ok(frozen("moved", stopped));
  EXPECT_THAT(stoa_ok(frozen("moved", four + two)).err, HasSubstr("RESUMED step-2"));
  // Those of the first step, on one rank, on two, and from one to two.
  stoa_ok(frozen("first", {"trainer.max_steps=1", "model.optim.sched.warmup_steps=0"}));
  for (const char* run : {"whole", "two", "moved"}) {
    const auto newest = [](const std::string& of) { return of + "/checkpoints/latest"; };
    const Outcome outcome = stoa({"compare", newest("first"), newest(run), "--json"});
    const auto report = nlohmann::json::parse(outcome.out, nullptr, false);
    ASSERT_TRUE(report.is_object()) << outcome.text();
    EXPECT_GT(report["equal_tensors"].get<int>(), 5) << report;
    const std::string different = report["different_tensors"].dump();
    EXPECT_THAT(different, HasSubstr("state/master/layers.1.mlp"));
    EXPECT_THAT(different, Not(HasSubstr("state/master/layers.0")));
    EXPECT_THAT(different, Not(HasSubstr("state/master/embedding")));
  }
  Outcome other =
      stoa(train("half", {"trainer.precision=bf16", "trainer.max_steps=6", "model.freeze=[embedding]"}));
  EXPECT_NE(other.exit_code, 0);
  EXPECT_THAT(other.err, HasSubstr("was frozen when this checkpoint was saved, the configuration trains it"));
  other = stoa(train("new", {"model.freeze=[layer.0]"}));
  EXPECT_NE(other.exit_code, 0);
  EXPECT_THAT(other.err, HasSubstr("did you mean 'layers.0'"));
}

TEST_F(Resume, AFlippedBitOfAnExportedModelIsFound) {
  stoa_ok(train("run", {"trainer.max_steps=1", "model.optim.sched.warmup_steps=0"}));
  stoa_ok({"checkpoint", "export", "run", "--dtype", "fp32", "--output", "bare"});
  stoa_ok({"generate", "bare", "--prompt", "the", "--max-tokens", "1", "--greedy"});
  EXPECT_EQ(json_of({"checkpoint", "verify", "bare", "--json"})["checksums"], true);
  std::string bytes = read_text(path("bare/model.safetensors"));
  bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 4);
  write_text(path("bare/model.safetensors"), bytes);
  const Outcome outcome = stoa({"generate", "bare", "--prompt", "the", "--max-tokens", "1", "--greedy"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("differ from what was exported"));
}

TEST_F(Resume, ARampThatTheScheduleCannotDoIsRefusedBeforeTheRun) {
  const Outcome outcome =
      stoa(train("ramp", {"--ranks", "2", "model.num_layers=4", "model.pipeline_model_parallel_size=2",
                          "model.virtual_pipeline_model_parallel_size=2", "model.micro_batch_size=1",
                          "model.global_batch_size=4", "model.rampup_batch_size=[2,1,8]"}));
  EXPECT_EQ(outcome.exit_code, 1) << outcome.text();
  EXPECT_THAT(outcome.err,
              HasSubstr("rampup_batch_size: with a batch of 3: schedule 'interleaved' cannot run 3"));
  EXPECT_FALSE(fs::exists(path("ramp")));
}

}  // namespace
}  // namespace stoa::e2e
