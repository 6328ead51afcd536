// The plan is the program: what `plan memory` and `bench train` say is what a run takes.
#include <gmock/gmock.h>

#include "workplace.h"

namespace stoa::e2e {
namespace {

class Plan : public Workplace {
 protected:
  void refuse(const Arguments& arguments, const std::vector<std::string>& words, int exit_code = 1) {
    const Outcome outcome = stoa(arguments);
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.text();
    for (const auto& word : words) EXPECT_THAT(outcome.err, ::testing::HasSubstr(word));
  }
};

// Few cases, for each also measures the machine's matrix rate; memory_test walks many within one process.
TEST_F(Plan, BenchTakesWhatWasPlanned) {
  const Arguments cases[] = {
      {"trainer.precision=fp32", "model.activations_checkpoint_granularity=full",
       "model.activations_checkpoint_method=uniform"},
      {"trainer.precision=bf16", "model.data.reset_attention_mask=true", "model.hidden_dropout=0.1"},
      {"trainer.precision=bf16", "model.num_layers=5", "model.cpu_offloading=true"}};
  for (const auto& more : cases) {
    const Arguments model = micro_model() + Arguments{"model.vocab_size=300"} + more;
    const auto bench = json_of(Arguments{"bench", "train"} + model + Arguments{"--steps", "2", "--json"});
    EXPECT_EQ(bench["planned_memory_bytes"], bench["arena_peak_bytes"]) << ::testing::PrintToString(more);
    const auto plan = json_of(Arguments{"plan", "memory"} + model + Arguments{"--json"});
    EXPECT_EQ(plan["total_bytes"], bench["planned_memory_bytes"]) << ::testing::PrintToString(more);
  }
}

// The host holds what the device does not: the same loss, less memory of the device by what was moved, but
// for the places that it passes through.
TEST_F(Plan, OffloadedActivationsAreShownApart) {
  const Arguments model = micro_model() + Arguments{"model.vocab_size=300", "model.num_layers=6"},
                  moved = model + Arguments{"model.cpu_offloading=true", "model.cpu_offloading_num_layers=5"};
  const auto kept = json_of(Arguments{"plan", "memory"} + model + Arguments{"--json"}),
             plan = json_of(Arguments{"plan", "memory"} + moved + Arguments{"--json"});
  const auto host = plan["host_bytes"].get<std::int64_t>();
  EXPECT_EQ(kept["host_bytes"], 0);
  EXPECT_EQ(plan["bytes"]["offloaded activations"], host);
  EXPECT_EQ(plan["total_bytes"].get<std::int64_t>() + host,
            kept["total_bytes"].get<std::int64_t>() +
                plan["detail"]["places_of_offloaded_layers"].get<std::int64_t>());
  EXPECT_THAT(stoa_ok(Arguments{"plan", "memory"} + moved).out, ::testing::HasSubstr("in host memory"));
  const auto loss = [&](const Arguments& arguments) {
    return json_of(Arguments{"bench", "train"} + arguments +
                   Arguments{"--steps", "2", "--json"})["last_loss"];
  };
  EXPECT_EQ(loss(moved), loss(model));
}

// docs/memory.md states the base: program, libraries, stacks, host copies of a batch.
TEST_F(Plan, PeakOfTheProcessIsTheArenaAndABase) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep memory of their own";
#endif
  constexpr std::int64_t kBase = 26 << 20;
  for (const char* precision : {"bf16", "fp32"}) {
    const auto bench = json_of({"bench", "train", "tiny", "model.vocab_size=2000", "trainer.num_threads=2",
                                std::string("trainer.precision=") + precision, "--steps", "2", "--json"});
    EXPECT_LT(bench["peak_memory_bytes"].get<std::int64_t>() - bench["arena_peak_bytes"].get<std::int64_t>(),
              kBase)
        << bench;
  }
}

// The plan is for what computes: workspaces of other kernels, the same keys and values of texts between
// steps.
TEST_F(Plan, AnswersForTheBackend) {
  const Arguments model = micro_model() + Arguments{"model.vocab_size=300"};
  const auto bytes = [&](const Arguments& more) {
    return json_of(Arguments{"plan", "memory", "--json"} + model + more);
  };
  const auto bench = json_of(Arguments{"bench", "train"} + model +
                             Arguments{"--backend", "reference", "--steps", "1", "--json"});
  EXPECT_EQ(bytes({"--backend", "reference"})["total_bytes"], bench["planned_memory_bytes"]);
  const Arguments tasks{"trainer.eval_tasks=[piqa]", "trainer.val_check_interval=2"};
  const auto host = bytes(tasks), gpu = bytes(tasks + Arguments{"--backend", "cuda"});
  EXPECT_GT(gpu["bytes"]["key-value cache"].get<double>(), 0);
  EXPECT_EQ(gpu["bytes"]["key-value cache"], host["bytes"]["key-value cache"]);
  EXPECT_THAT(gpu["machine"].get<std::string>(), ::testing::HasSubstr("plan for"));
  EXPECT_EQ(gpu["bytes"]["weights"], host["bytes"]["weights"]);
}

// What Stoa does not train is estimated for Megatron-LM, by every command, and refused where it would run.
TEST_F(Plan, EstimatesWhatMegatronAloneTrains) {
  const Arguments command{
      "--from-megatron",
      "--num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 --vocab-size "
      "32000 --micro-batch-size 1 --global-batch-size 64 --bf16 --position-embedding-type rope "
      "--use-distributed-optimizer --mtp-num-layers 1"},
      plain{"--from-megatron", command[1].substr(0, command[1].find(" --mtp")), "--target", "megatron"},
      ranks{"--ranks", "8"}, cluster{"--cluster", "dgx-h100"};
  const auto with = json_of(Arguments{"plan", "memory", "--json"} + command + ranks),
             without = json_of(Arguments{"plan", "memory", "--json"} + plain + ranks);
  EXPECT_EQ(with["whose_bytes"], "estimated for Megatron-LM");
  EXPECT_EQ(without["whose_bytes"], "estimated for Megatron-LM");
  EXPECT_GT(with["total_bytes"].get<double>(), 1.1 * without["total_bytes"].get<double>());
  const auto predicted = json_of(Arguments{"plan", "predict", "--json"} + command + ranks + cluster);
  EXPECT_EQ(predicted["whose_bytes"], "estimated for Megatron-LM");
  EXPECT_NEAR(predicted["memory_bytes"]["total"].get<double>(), with["total_bytes"].get<double>(), 1);
  const auto advice = json_of(Arguments{"plan", "advise", "--json", "--gpus", "8"} + command + cluster);
  EXPECT_EQ(advice["fits"]["whose_bytes"], "estimated for Megatron-LM");
  EXPECT_NEAR(advice["fits"]["memory_bytes"].get<double>(), with["total_bytes"].get<double>(), 8);
  const std::string emitted =
      stoa_ok(Arguments{"plan", "search", "--gpus", "8", "--top", "1", "--emit", "megatron"} + command +
              cluster)
          .out;
  EXPECT_THAT(emitted, ::testing::HasSubstr("--mtp-num-layers 1"));
  refuse(Arguments{"plan", "search", "--gpus", "8", "--target", "stoa"} + command + cluster,
         {"multi-token prediction"});
  refuse(Arguments{"bench", "train"} + command, {"--mtp-num-layers 1", "one token ahead"}, 2);
  refuse({"train", "tiny", "model.data=nowhere", "model.mtp_num_layers=1", "--output", "out"},
         {"multi-token prediction", "stoa plan"});
  refuse({"plan", "memory", "tiny", "--target", "megatron", "--threads", "2"}, {"--threads"}, 2);
}

// Sizes that no test machine has.
TEST_F(Plan, LargestPresetsWithoutMemory) {
  for (const char* preset : {"gpt-175b", "gpt-1t"}) {
    const auto plan = json_of({"plan", "memory", preset, "--json"});
    EXPECT_GT(plan["total_bytes"].get<double>(), 1e12) << preset;
  }
}

}  // namespace
}  // namespace stoa::e2e
