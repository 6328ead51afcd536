// What must not change a run: resuming, signals, kills, recomputation, threads.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "base/file.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::HasSubstr;

class Identity : public Workplace {
 protected:
  std::int64_t newest_step(const std::string& run) const {
    std::error_code none;
    const auto link = fs::read_symlink(path(run) / "checkpoints/latest", none);
    return none ? 0 : std::stoll(link.string().substr(5));
  }

  // Kills a run at random moments and holds it against one that nothing disturbed. STOA_KILLS and
  // STOA_KILL_STEPS make it longer (tests/slow/kill_resume.sh).
  void kill_and_compare(const Arguments& of_run) const {
    const auto setting = [](const char* name, int otherwise) {
      const char* text = std::getenv(name);
      return text ? std::atoi(text) : otherwise;
    };
    constexpr int kEvery = 7;
    const int kills = setting("STOA_KILLS", 4), steps = setting("STOA_KILL_STEPS", 150);
    const Arguments more = of_run + Arguments{"trainer.max_steps=" + std::to_string(steps),
                                              "exp_manager.checkpoint_callback_params.every_n_train_steps=" +
                                                  std::to_string(kEvery),
                                              "trainer.precision=bf16", "model.hidden_dropout=0.1"};
    using Clock = std::chrono::steady_clock;
    using Seconds = std::chrono::duration<double>;
    auto begin = Clock::now();
    stoa_ok(train("straight", more));
    const double whole = Seconds(Clock::now() - begin).count();
    fs::copy(path("straight"), path("done"), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    begin = Clock::now();
    stoa_ok(train("done", more));  // has nothing to do but to start
    const double start = Seconds(Clock::now() - begin).count();
    // Long enough to reach the steps. However fast the machine has become, no kill waits for more than so
    // many steps, with a checkpoint among them: all together leave some of the run undone.
    const double longest = start + 1.5 * std::max(0.0, whole - start) / (kills + 1);
    const int most_steps = std::max(steps / (2 * kills), 2 * kEvery + 1);
    const auto last_step = [&] {
      const fs::path file = path("killed/metrics.jsonl");
      const std::string text = fs::exists(file) ? read_text(file) : "", key = "\"step\":";
      const auto at = text.rfind(key);
      return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + key.size());
    };
    std::mt19937_64 random(
        static_cast<std::uint64_t>(setting("STOA_KILL_SEED", static_cast<int>(::getpid()))));
    for (int kill = 0, over = 0; kill < kills;) {
      Program program(train("killed", more), {directory(), {}});
      const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(
                                            std::uniform_real_distribution<double>(0, longest)(random)));
      const std::int64_t goal = newest_step("killed") + most_steps;
      // The last kill finds a checkpoint, however early the others came.
      const bool last_without = kill == kills - 1 && newest_step("killed") == 0;
      program.wait_until([&] {
        return (Clock::now() >= until && (!last_without || newest_step("killed") > 0)) || last_step() >= goal;
      });
      program.signal(SIGKILL);
      const Outcome outcome = program.wait();
      if (outcome.exit_code == 128 + SIGKILL) {
        ++kill;
      } else {
        ASSERT_EQ(outcome.exit_code, 0) << outcome.text();
        ASSERT_LT(++over, 10) << "runs end before they are killed";
        fs::remove_all(path("killed"));
      }
      if (newest_step("killed") > 0) {
        EXPECT_EQ(json_of({"checkpoint", "verify", "killed", "--json"})["ok"], true);
      }
    }
    const std::int64_t reached = newest_step("killed");
    EXPECT_GT(reached, 0) << "no run came to a checkpoint before it was killed";
    stoa_ok(train("killed", more));
    expect_same("straight", "killed");
    EXPECT_EQ(metrics("killed").size(), static_cast<std::size_t>(steps));
    for (const auto& name : checkpoints("killed"))
      EXPECT_FALSE(name.starts_with(".")) << "left behind: " << name;
    std::printf("after %d kills the run began at step %d of %d\n", kills, static_cast<int>(reached), steps);
  }
};

TEST_F(Identity, ResumingChangesNothing) {
  for (const char* precision : {"fp32", "bf16", "fp16"}) {
    const std::string name = precision;
    const Arguments more{"trainer.precision=" + name, "model.hidden_dropout=0.1",
                         "model.attention_dropout=0.1", "trainer.val_check_interval=5",
                         "trainer.limit_val_batches=1"};
    stoa_ok(train(name + "-straight", more));
    // The schedules know the last step: a part of the run is the whole run's configuration, ended early.
    const auto half = more + Arguments{"exp_manager.checkpoint_callback_params.every_n_train_steps=6",
                                       "exp_manager.checkpoint_callback_params.save_top_k=-1"};
    stoa_ok(train(name + "-resumed", half));
    // Back to step 6, as if the process had died right after it.
    fs::remove_all(path(name + "-resumed") / "checkpoints/step-0000012");
    fs::remove(path(name + "-resumed") / "checkpoints/latest");
    const Outcome outcome = stoa_ok(train(name + "-resumed", half));
    EXPECT_THAT(outcome.err, HasSubstr("RESUMED step-6 (verified)"));
    expect_same(name + "-straight", name + "-resumed");
  }
}

TEST_F(Identity, TerminationSavesAndResumes) {
  const Arguments more{"trainer.max_steps=300"};
  stoa_ok(train("straight", more));
  {
    Program program(train("stopped", more), {directory(), {}});
    ASSERT_TRUE(program.wait_until([&] {
      return fs::exists(path("stopped/metrics.jsonl")) &&
             read_text(path("stopped/metrics.jsonl")).find("\"step\":5,") != std::string::npos;
    }));
    program.signal(SIGTERM);
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.exit_code, 130) << outcome.text();
    EXPECT_THAT(outcome.err, HasSubstr("checkpoint was saved"));
  }
  const std::int64_t step = newest_step("stopped");
  EXPECT_GE(step, 5);
  EXPECT_LT(step, 300) << "the run was over before the signal came";
  EXPECT_EQ(metrics("stopped").rbegin()->first, step);
  const Outcome resumed = stoa_ok(train("stopped", more));
  EXPECT_THAT(resumed.err, HasSubstr("RESUMED"));
  expect_same("straight", "stopped");
  EXPECT_EQ(metrics("stopped").size(), 300u) << "every step once";
}

TEST_F(Identity, KilledAtRandomMoments) { kill_and_compare({}); }

// The moments of what is trained are shared between two ranks.
TEST_F(Identity, AdaptersKilledAtRandomMoments) {
  stoa_ok(train("base", {"trainer.max_steps=2"}));
  kill_and_compare({"restore_from_path=base", "model.peft.peft_scheme=lora",
                    "model.peft.lora_tuning.adapter_dim=4", "model.peft.lora_tuning.adapter_dropout=0.1",
                    "model.optim.lr=0.01", "--ranks", "2", "model.zero_stage=1"});
}

TEST_F(Identity, RecomputationChangesNothing) {
  for (const char* precision : {"fp32", "bf16"}) {
    const std::string name = precision;
    const Arguments more{"trainer.precision=" + name, "model.hidden_dropout=0.1",
                         "model.attention_dropout=0.1", "model.num_layers=3"};
    stoa_ok(train(name, more));
    stoa_ok(
        train(name + "-selective", more + Arguments{"model.activations_checkpoint_granularity=selective"}));
    stoa_ok(train(name + "-full", more + Arguments{"model.activations_checkpoint_granularity=full",
                                                   "model.activations_checkpoint_method=uniform",
                                                   "model.activations_checkpoint_num_layers=1"}));
    stoa_ok(train(name + "-block", more + Arguments{"model.activations_checkpoint_granularity=full",
                                                    "model.activations_checkpoint_method=block",
                                                    "model.activations_checkpoint_num_layers=2"}));
    expect_same(name, name + "-selective");
    expect_same(name, name + "-full");
    expect_same(name, name + "-block");
  }
}

TEST_F(Identity, ThreadsChangeNothing) {
  for (const char* precision : {"fp32", "bf16"}) {
    const std::string name = precision;
    stoa_ok(train(name + "-1", {"trainer.precision=" + name, "trainer.num_threads=1"}));
    stoa_ok(train(name + "-3", {"trainer.precision=" + name, "trainer.num_threads=3"}));
    expect_same(name + "-1", name + "-3");
  }
}

TEST_F(Identity, CpuAgreesWithTheReferenceOperationByOperation) {
  for (const char* precision : {"fp32", "bf16"})
    stoa_ok(train(precision, {std::string("trainer.precision=") + precision, "trainer.max_steps=2",
                              "--backend", "check", "model.optim.sched.warmup_steps=1"}));
}

TEST_F(Identity, CompareNamesWhatDiffers) {
  stoa_ok(train("a"));
  stoa_ok(train("b", {"model.seed=5"}));
  stoa_ok(train("c", {"model.optim.lr=1.0001e-3"}));
  const Outcome seeds = stoa({"compare", "a", "b"});
  EXPECT_EQ(seeds.exit_code, 3) << seeds.text();
  EXPECT_THAT(seeds.out, HasSubstr("DIFFERENT"));
  EXPECT_THAT(seeds.out, HasSubstr("state/adam.m/"));
  EXPECT_EQ(stoa({"compare", "a", "c"}).exit_code, 3);
  const Outcome near = stoa({"compare", "a", "c", "--tolerance", "0.02"});
  EXPECT_EQ(near.exit_code, 0) << near.text();
  EXPECT_THAT(near.out, HasSubstr("SAME within 0.02"));
  const auto report = nlohmann::json::parse(stoa({"compare", "a", "c", "--json"}).out);
  EXPECT_EQ(report["curves"]["lr"]["first_step"], 2) << "warm-up starts from 0";
  EXPECT_EQ(report["curves"]["loss"]["first_step"], 3) << "an update shows in the next loss";
  EXPECT_EQ(report["different_tensors"][0]["index"].is_array(), true);
  EXPECT_EQ(stoa({"compare", "a", "nothing"}).exit_code, 1);
}

}  // namespace
}  // namespace stoa::e2e
