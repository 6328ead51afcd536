// The plan is the program: what `plan memory` and `bench train` say is what a run takes.
#include <gmock/gmock.h>

#include "workplace.h"

namespace stoa::e2e {
namespace {

class Plan : public Workplace {};

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
  constexpr std::int64_t kBase = 24 << 20;
  for (const char* precision : {"bf16", "fp32"}) {
    const auto bench = json_of({"bench", "train", "tiny", "model.vocab_size=2000", "trainer.num_threads=2",
                                std::string("trainer.precision=") + precision, "--steps", "2", "--json"});
    EXPECT_LT(bench["peak_memory_bytes"].get<std::int64_t>() - bench["arena_peak_bytes"].get<std::int64_t>(),
              kBase)
        << bench;
  }
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
