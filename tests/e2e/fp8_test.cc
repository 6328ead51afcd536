// Training with 8-bit linear layers, beside the same in bf16.
#include <gmock/gmock.h>

#include <cmath>

#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::HasSubstr;

class Fp8 : public Workplace {
 protected:
  static Arguments eight_bits(const std::string& run, const Arguments& more = {}) {
    return train(run, Arguments{"trainer.precision=bf16", "model.fp8=hybrid", "model.optim.lr=3e-3"} + more);
  }
};

TEST_F(Fp8, LearnsAsBf16Does) {
  const Arguments more{"trainer.max_steps=40", "trainer.val_check_interval=40",
                       "trainer.limit_val_batches=2"};
  stoa_ok(train("bf16", Arguments{"trainer.precision=bf16", "model.optim.lr=3e-3"} + more));
  stoa_ok(eight_bits("hybrid", more));
  stoa_ok(eight_bits("e4m3", more + Arguments{"model.fp8=e4m3"}));
  stoa_ok(eight_bits("delayed", more + Arguments{"model.fp8_recipe=delayed"}));
  const auto wide = metrics("bf16");
  ASSERT_EQ(wide.size(), 40u);
  for (const char* run : {"hybrid", "e4m3", "delayed"}) {
    bool differs = false;
    for (const auto& [step, line] : metrics(run)) {
      const double loss = line["loss"], expected = wide.at(step)["loss"];
      EXPECT_NEAR(loss, expected, 0.03 * expected) << run << ", step " << step;
      differs = differs || loss != expected;
    }
    EXPECT_TRUE(differs) << run;
    const double loss = validations(run).at(40)["val_loss"],
                 expected = validations("bf16").at(40)["val_loss"];
    EXPECT_NEAR(loss, expected, 0.03 * expected) << run;
  }
  // What was trained is a model like any other: nothing of 8 bits is left where it is used.
  stoa_ok({"generate", "hybrid", "--prompt", "the stone", "--max-tokens", "5", "--greedy"});
  EXPECT_EQ(json_of({"checkpoint", "verify", "hybrid", "--json"})["ok"], true);
}

TEST_F(Fp8, ThreadsRecomputationAndResumingChangeNothing) {
  stoa_ok(eight_bits("whole", {"model.hidden_dropout=0.1"}));
  stoa_ok(eight_bits("threads", {"model.hidden_dropout=0.1", "trainer.num_threads=1"}));
  stoa_ok(eight_bits(
      "again", {"model.hidden_dropout=0.1", "model.activations_checkpoint_granularity=full",
                "model.activations_checkpoint_method=uniform", "model.activations_checkpoint_num_layers=1"}));
  const Arguments halves{"model.hidden_dropout=0.1", "exp_manager.resume_if_exists=true"};
  stoa_ok(eight_bits("resumed", halves + Arguments{"--stop-after", "7"}));
  stoa_ok(eight_bits("resumed", halves));
  for (const char* run : {"threads", "again", "resumed"}) expect_same("whole", run);
}

TEST_F(Fp8, DelayedScalingResumesInEveryLayout) {
  const Arguments more{"model.fp8_recipe=delayed", "model.fp8_amax_history_len=4",
                       "model.hidden_dropout=0.1"},
      again = more + Arguments{"exp_manager.resume_if_exists=true"},
      two{"model.tensor_model_parallel_size=2", "--ranks", "2"},
      stages{"model.pipeline_model_parallel_size=2", "--ranks", "2"};
  stoa_ok(eight_bits("whole", more));
  stoa_ok(eight_bits("recomputed", more + Arguments{"model.activations_checkpoint_granularity=full",
                                                    "model.activations_checkpoint_method=uniform",
                                                    "model.activations_checkpoint_num_layers=1"}));
  stoa_ok(eight_bits("resumed", again + Arguments{"--stop-after", "7"}));
  stoa_ok(eight_bits("resumed", again));
  // Stages change no bit; what several ranks wrote, one reads, and the other way round.
  stoa_ok(eight_bits("stages", again + stages + Arguments{"--stop-after", "7"}));
  stoa_ok(eight_bits("stages", again));
  stoa_ok(eight_bits("onwards", again + Arguments{"--stop-after", "7"}));
  stoa_ok(eight_bits("onwards", again + stages));
  for (const char* run : {"recomputed", "resumed", "stages", "onwards"}) expect_same("whole", run);
  stoa_ok(eight_bits("tensor", again + two + Arguments{"--stop-after", "7"}));
  stoa_ok(eight_bits("tensor", again + stages));
  const auto whole = metrics("whole");
  for (const auto& [step, line] : metrics("tensor")) {
    const double loss = line["loss"], expected = whole.at(step)["loss"];
    EXPECT_NEAR(loss, expected, 0.01 * expected) << step;
  }
  // A history is part of the state.
  const Outcome longer = stoa(eight_bits("resumed", again + Arguments{"model.fp8_amax_history_len=8"}));
  EXPECT_EQ(longer.exit_code, 1);
  EXPECT_THAT(longer.err, HasSubstr("fp8.amax/layers.0.attention.qkv")) << longer.text();
}

// Experts are layers with scales and histories of their own, wherever they are.
TEST_F(Fp8, ExpertsLearnAndResumeInEveryLayout) {
  const Arguments moe{"model.num_moe_experts=4", "model.moe_ffn_hidden_size=32", "model.bias=none",
                      "model.activation=swiglu"},
      long_run = moe + Arguments{"trainer.max_steps=30", "trainer.val_check_interval=30",
                                 "trainer.limit_val_batches=2"},
      recipe{"model.fp8_recipe=delayed", "model.fp8_amax_history_len=4"};
  stoa_ok(train("experts", Arguments{"trainer.precision=bf16", "model.optim.lr=3e-3"} + long_run));
  stoa_ok(eight_bits("tensorwise", long_run));
  stoa_ok(eight_bits("delayed", long_run + recipe));
  const auto wide = metrics("experts");
  ASSERT_EQ(wide.size(), 30u);
  for (const char* run : {"tensorwise", "delayed"})
    for (const auto& [step, line] : metrics(run)) {
      const double loss = line["loss"], expected = wide.at(step)["loss"];
      EXPECT_NEAR(loss, expected, 0.03 * expected) << run << ", step " << step;
    }
  const Arguments again = moe + recipe + Arguments{"exp_manager.resume_if_exists=true"},
                  two{"model.expert_model_parallel_size=2", "--ranks", "2"},
                  parts{"model.expert_tensor_parallel_size=2", "--ranks", "2"},
                  stages{"model.pipeline_model_parallel_size=2", "--ranks", "2"};
  stoa_ok(eight_bits("whole", moe + recipe));
  stoa_ok(eight_bits("onwards", again + Arguments{"--stop-after", "7"}));
  stoa_ok(eight_bits("onwards", again + stages));
  expect_same("whole", "onwards");
  const auto whole = metrics("whole");
  stoa_ok(eight_bits("spread", again + two + Arguments{"--stop-after", "4"}));
  stoa_ok(eight_bits("spread", again + parts + Arguments{"--stop-after", "8"}));
  stoa_ok(eight_bits("spread", again));
  for (const auto& [step, line] : metrics("spread")) {
    const double loss = line["loss"], expected = whole.at(step)["loss"];
    EXPECT_NEAR(loss, expected, 0.01 * expected) << step;
  }
  EXPECT_EQ(json_of({"checkpoint", "verify", "spread", "--json"})["ok"], true);
}

TEST_F(Fp8, EveryOperationIsTheReferences) {
  const Arguments more{"trainer.max_steps=2", "--backend", "check", "model.optim.sched.warmup_steps=1"};
  stoa_ok(eight_bits("check", more));
  stoa_ok(eight_bits("delayed", more + Arguments{"model.fp8_recipe=delayed"}));
  stoa_ok(eight_bits("experts", more + Arguments{"model.num_moe_experts=4", "model.moe_ffn_hidden_size=32",
                                                 "model.bias=none"}));
}

TEST_F(Fp8, RanksTrainTheSame) {
  stoa_ok(eight_bits("one"));
  stoa_ok(eight_bits("two",
                     {"model.tensor_model_parallel_size=2", "model.sequence_parallel=true", "--ranks", "2"}));
  const auto one = metrics("one");
  for (const auto& [step, line] : metrics("two")) {
    const double loss = line["loss"], expected = one.at(step)["loss"];
    EXPECT_NEAR(loss, expected, 0.01 * expected) << step;
  }
}

TEST_F(Fp8, WhatCannotBeIsSaidBefore) {
  const Outcome sizes = stoa(eight_bits("sizes", {"model.ffn_hidden_size=72"}));
  EXPECT_EQ(sizes.exit_code, 1);
  EXPECT_THAT(sizes.err,
              HasSubstr("fp8: ffn_hidden_size 72 gives a rank 72 columns, expected a multiple of 16"))
      << sizes.text();
  const Outcome format = stoa(eight_bits("run", {"model.fp8=e5m2"}));
  EXPECT_EQ(format.exit_code, 1);
  EXPECT_THAT(format.err, HasSubstr("one of e4m3, hybrid, false")) << format.text();
  EXPECT_FALSE(fs::exists(path("run")));
}

TEST_F(Fp8, PlansShowIt) {
  const auto predicted = [&](const Arguments& more) {
    return json_of(Arguments{"plan", "predict", "gpt-5b", "--cluster", "dgx-h100", "--json"} + more);
  };
  EXPECT_EQ(predicted({"model.fp8=hybrid"}), predicted({"--precision", "fp8"}));
  EXPECT_NE(predicted({"model.fp8=hybrid"}), predicted({}));
  // Delayed scaling has no pass for the largest magnitude.
  EXPECT_LT(predicted({"model.fp8=hybrid", "model.fp8_recipe=delayed"})["step_seconds"],
            predicted({"model.fp8=hybrid"})["step_seconds"]);
  // Of 8-bit copies there is one operand at a time, in scratch: nothing else of the plan is larger.
  const auto planned = [&](const Arguments& more) {
    return json_of(Arguments{"plan", "memory", "gpt2-124m", "model.micro_batch_size=8", "--json"} + more);
  };
  auto with = planned({"model.fp8=hybrid"}), without = planned({});
  EXPECT_GT(with["bytes"]["scratch"], without["bytes"]["scratch"]);
  EXPECT_EQ(with["detail"]["scratch_is_fullest_in"], "fp8 product");
  EXPECT_EQ(with["bytes"]["weights"], without["bytes"]["weights"]);
  EXPECT_EQ(with["bytes"]["saved activations"], without["bytes"]["saved activations"]);
}

}  // namespace
}  // namespace stoa::e2e
