// Runs of several ranks, as threads and as processes: the same run, checkpoints that any layout reads, and
// ends that are told.
#include <gmock/gmock.h>
#include <signal.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/cores.h"
#include "base/file.h"
#include "base/test_paths.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::HasSubstr;

struct TestLayout {
  const char* name;
  Arguments arguments;
};

const std::vector<TestLayout>& layouts() {
  static const std::vector<TestLayout> all{
      {"one", {}},
      {"dp2", {"--ranks", "2"}},
      {"dp2 zero1", {"--ranks", "2", "model.zero_stage=1"}},
      {"pp2", {"--ranks", "2", "model.pipeline_model_parallel_size=2"}},
      {"tp2", {"--ranks", "2", "model.tensor_model_parallel_size=2", "model.sequence_parallel=true"}},
      {"tp2 pp2",
       {"--ranks", "4", "model.tensor_model_parallel_size=2", "model.pipeline_model_parallel_size=2"}},
      {"dp2 zero3", {"--ranks", "2", "model.zero_stage=3", "model.optim.bucket_cap_mb=0.05"}},
      {"cp2", {"--ranks", "2", "model.context_parallel_size=2"}},
      {"cp2 a2a zero2",
       {"--ranks", "2", "model.context_parallel_size=2", "model.cp_comm_type=a2a", "model.zero_stage=2",
        "model.optim.reduce_each_microbatch=true"}},
      {"cp2 gathered", {"--ranks", "2", "model.context_parallel_size=2", "model.cp_comm_type=all_gather"}},
      {"cp4 hierarchical",
       {"--ranks", "4", "model.context_parallel_size=4", "model.cp_comm_type=a2a+p2p",
        "model.hierarchical_context_parallel_sizes=[2,2]"}},
      {"tp2 cp2 pp2 zero1",
       {"--ranks", "8", "model.tensor_model_parallel_size=2", "model.sequence_parallel=true",
        "model.context_parallel_size=2", "model.pipeline_model_parallel_size=2", "model.zero_stage=1"}}};
  return all;
}

class Ranks : public Workplace {
 protected:
  static Arguments with(const Arguments& more) { return more + Arguments{"trainer.num_threads=1"}; }
  // A job of `ranks` processes.
  Program mpi(int ranks, const Arguments& stoa_arguments) const {
    const Arguments launch{"OMPI_ALLOW_RUN_AS_ROOT=1",
                           "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                           "mpirun",
                           "--oversubscribe",
                           "--bind-to",
                           "none",
                           "-n",
                           std::to_string(ranks),
                           test::program().string()};
    return {launch + stoa_arguments, {directory(), {}, std::chrono::seconds(600), "/usr/bin/env"}};
  }
  // The process that is rank 1 of the job of this directory, or 0.
  pid_t second_rank() const {
    for (const auto& entry : fs::directory_iterator("/proc")) {
      std::error_code error;
      if (fs::read_symlink(entry.path() / "cwd", error) != directory() || error) continue;
      std::ifstream file(entry.path() / "environ");
      const std::string environment((std::istreambuf_iterator<char>(file)), {});
      if (environment.find(std::string("OMPI_COMM_WORLD_RANK=1") + '\0') != std::string::npos)
        return static_cast<pid_t>(std::stol(entry.path().filename().string()));
    }
    return 0;
  }
  static bool have_mpi() { return std::system("command -v mpirun >/dev/null 2>&1") == 0; }

  void expect_equal_files(const std::string& a, const std::string& b, const std::string& checkpoint) const {
    int compared = 0;
    for (const char* file : {"model/model.safetensors", "state/optimizer.safetensors", "model/config.json"}) {
      const fs::path one = path(a) / "checkpoints" / checkpoint / file,
                     other = path(b) / "checkpoints" / checkpoint / file;
      ASSERT_TRUE(fs::exists(one)) << one;
      ASSERT_TRUE(fs::exists(other)) << other;
      EXPECT_TRUE(read_text(one) == read_text(other)) << a << " and " << b << ": " << file;
      ++compared;
    }
    EXPECT_EQ(compared, 3);
  }
  void expect_near_runs(const std::string& a, const std::string& b, double tolerance) const {
    const auto one = metrics(a), other = metrics(b);
    ASSERT_EQ(one.size(), other.size());
    for (const auto& [step, line] : one) {
      const double x = line["loss"], y = other.at(step)["loss"];
      EXPECT_NEAR(x, y, tolerance * std::abs(x)) << a << " and " << b << ", step " << step;
      const double n = line["grad_norm"], m = other.at(step)["grad_norm"];
      EXPECT_NEAR(n, m, 20 * tolerance * std::abs(n)) << a << " and " << b << ", step " << step;
    }
  }
};

TEST_F(Ranks, InitialWeightsAreTheSameFilesInEveryLayout) {
  for (const auto& layout : layouts())
    stoa_ok(train(layout.name, with(layout.arguments +
                                    Arguments{"trainer.max_steps=0", "model.optim.sched.warmup_steps=0"})));
  for (const auto& layout : layouts()) expect_equal_files("one", layout.name, "step-0000000");
}

TEST_F(Ranks, EveryLayoutIsTheSameRunAndResumesInAnother) {
  const Arguments more{"trainer.max_steps=6", "trainer.val_check_interval=3", "trainer.limit_val_batches=2",
                       "exp_manager.checkpoint_callback_params.save_top_k=-1", "model.hidden_dropout=0.1"};
  for (const auto& layout : layouts()) stoa_ok(train(layout.name, with(layout.arguments + more)));
  for (const auto& layout : layouts()) expect_near_runs("one", layout.name, 2e-5);
  // From step 3 on in the next layout.
  for (std::size_t i = 0; i < layouts().size(); ++i) {
    const auto& from = layouts()[i];
    const auto& to = layouts()[(i + 1) % layouts().size()];
    fs::remove_all(path(from.name) / "checkpoints/step-0000006");
    fs::remove(path(from.name) / "checkpoints/latest");
    const Outcome outcome = stoa_ok(train(from.name, with(to.arguments + more)));
    EXPECT_THAT(outcome.err, HasSubstr("RESUMED step-3 (verified)")) << from.name << " in " << to.name;
    expect_near_runs("one", from.name, 2e-5);
  }
}

TEST_F(Ranks, StayOnCoresOfTheirOwn) {
  const Arguments more{"--ranks", "2", "trainer.max_steps=2"};
  if (available_cores() >= 2) {
    stoa_ok(train("free", with(more)));
    stoa_ok(train("bound", with(more + Arguments{"--bind-cores"})));
    expect_equal_files("free", "bound", "step-0000002");
  }
  const int many = available_cores() + 1;
  const Outcome outcome = stoa(train("many", with({"--ranks", std::to_string(many), "--bind-cores",
                                                   "model.global_batch_size=" + std::to_string(2 * many)})));
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, HasSubstr(std::to_string(many) + " ranks, each on its own cores"));
  if (!have_mpi()) GTEST_SKIP() << "no mpirun";
  EXPECT_THAT(mpi(2, train("process", with({"--bind-cores"}))).wait().err,
              HasSubstr("mpirun with --bind-to core"));
}

TEST_F(Ranks, WeightsOfAModelReachEveryLayout) {
  stoa_ok(train("source", {"trainer.max_steps=4"}));
  const Arguments more{"trainer.max_steps=0", "model.optim.sched.warmup_steps=0", "restore_from_path=source"};
  for (const auto& layout : layouts()) stoa_ok(train(layout.name, with(layout.arguments + more)));
  const std::string model = read_text(path("source") / "checkpoints/step-0000004/model/model.safetensors");
  for (const auto& layout : layouts())
    EXPECT_TRUE(read_text(path(layout.name) / "checkpoints/step-0000000/model/model.safetensors") == model)
        << layout.name;
}

TEST_F(Ranks, GradientsThatTravelInBf16AreRoundedButNear) {
  stoa_ok(train("plain", with({"--ranks", "2"})));
  stoa_ok(train("rounded", with({"--ranks", "2", "model.optim.grad_reduce_type=bf16"})));
  expect_near_runs("plain", "rounded", 1e-3);
  EXPECT_NE(metrics("plain").rbegin()->second["loss"], metrics("rounded").rbegin()->second["loss"]);
}

TEST_F(Ranks, OneTraceShowsAllRanks) {
  for (const bool processes : {false, true}) {
    if (processes && !have_mpi()) continue;
    const Arguments more{"model.pipeline_model_parallel_size=2", "trainer.max_steps=3",
                         "trainer.trace_steps=[2,3]", "trainer.num_threads=1"};
    if (processes)
      ASSERT_EQ(mpi(2, train("traced-mpi", more)).wait().exit_code, 0);
    else
      stoa_ok(train("traced", more + Arguments{"--ranks", "2"}));
    const auto trace =
        nlohmann::json::parse(read_text(path(processes ? "traced-mpi" : "traced") / "trace.json"));
    std::map<int, std::string> names;
    std::map<int, int> forwards;
    std::map<int, double> first, last;
    for (const auto& event : trace["traceEvents"]) {
      const int rank = event["pid"];
      if (event["ph"] == "M") {
        names[rank] = event["args"]["name"];
        continue;
      }
      forwards[rank] += event["name"].get<std::string>().starts_with("F chunk") ? 1 : 0;
      first.try_emplace(rank, event["ts"]);
      last[rank] = std::max(last[rank], event["ts"].get<double>());
    }
    EXPECT_EQ(names, (std::map<int, std::string>{{0, "rank 0 (pp 0)"}, {1, "rank 1 (pp 1)"}}));
    EXPECT_EQ(forwards[0], forwards[1]);
    EXPECT_GE(forwards[0], 4) << "two microbatches in each of two steps";
    EXPECT_LT(first[1], last[0]) << "one clock";
  }
}

// A token that no vocabulary has, in what the second rank reads first: all end, with the rank's name.
TEST_F(Ranks, AnErrorOfOneRankEndsAllWithItsMessage) {
  std::string bytes = read_text(path("data.bin"));
  for (std::size_t i = bytes.size() / 2; i + 1 < bytes.size(); i += 2) bytes[i] = bytes[i + 1] = '\x7f';
  write_text(path("spoilt.bin"), bytes);
  fs::copy_file(path("data.idx"), path("spoilt.idx"));
  const Arguments more{"model.data=spoilt", "trainer.num_threads=1"};
  for (const bool processes : {false, true}) {
    if (processes && !have_mpi()) continue;
    const Outcome outcome = processes ? mpi(2, train("ended-mpi", more)).wait()
                                      : stoa(train("ended", more + Arguments{"--ranks", "2"}));
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_THAT(outcome.err,
                ::testing::ContainsRegex("ERROR rank [01].*token .* but the vocabulary has 300"));
  }
}

TEST_F(Ranks, TerminationSavesOnce) {
  const Arguments more = with({"--ranks", "2", "trainer.max_steps=2000"});
  Program program(train("stopped", more), {directory(), {}});
  ASSERT_TRUE(program.wait_until([&] {
    return fs::exists(path("stopped/metrics.jsonl")) &&
           read_text(path("stopped/metrics.jsonl")).find("\"step\":5,") != std::string::npos;
  }));
  program.signal(SIGTERM);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 130) << outcome.text();
  EXPECT_EQ(checkpoints("stopped").size(), 1u);
  const auto done = metrics("stopped").rbegin()->first;
  EXPECT_LT(done, 2000);
  const std::string steps = "trainer.max_steps=" + std::to_string(done + 2);
  EXPECT_THAT(stoa_ok(train("stopped", with({steps}))).err, HasSubstr("RESUMED"));
}

TEST_F(Ranks, SixtyFourThreadsTrain) {
  stoa_ok(train("many", with({"--ranks", "64", "trainer.max_steps=1", "model.optim.sched.warmup_steps=0",
                              "model.micro_batch_size=1", "model.global_batch_size=64"})));
}

TEST_F(Ranks, WrongNumbersAreRefusedOnce) {
  const Outcome outcome = stoa(train("none", {"--ranks", "3"}));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("global_batch_size 4"));
  EXPECT_THAT(stoa(train("none", {"--ranks", "2", "trainer.devices=4"})).err, HasSubstr("but 2 ranks run"));
}

TEST_F(Ranks, ProcessesAreTheSameRunAsThreads) {
  if (!have_mpi()) GTEST_SKIP() << "there is no mpirun here";
  std::vector<TestLayout> some;
  for (const std::size_t i : {1, 2, 3, 4, 6, 7, 8}) some.push_back(layouts()[i]);
  some.push_back(
      {"pp2 zb-v", layouts()[3].arguments + Arguments{"model.pipeline_schedule=zb-v", "model.num_layers=4"}});
  for (const auto& layout : some) {
    const Arguments more{"trainer.max_steps=4", "trainer.precision=bf16", "trainer.num_threads=1"};
    const std::string threads = std::string(layout.name) + "-threads",
                      processes = std::string(layout.name) + "-mpi";
    stoa_ok(train(threads, layout.arguments + more));
    const Outcome outcome = mpi(2, train(processes, layout.arguments + more)).wait();
    ASSERT_EQ(outcome.exit_code, 0) << outcome.text();
    expect_same(threads, processes);
    expect_equal_files(threads, processes, "step-0000004");
  }
}

// Experts over replicas, in parts, over ranks that share the other layers; their state in shards of their
// own.
TEST_F(Ranks, ExpertsOverRanksAreTheSameRun) {
  const Arguments model{"model.num_moe_experts=4",
                        "model.moe_ffn_hidden_size=48",
                        "model.moe_shared_expert_intermediate_size=32",
                        "model.moe_aux_loss_coeff=0.01",
                        "model.moe_z_loss_coeff=0.001",
                        "model.moe_router_score_function=sigmoid",
                        "model.moe_router_enable_expert_bias=true",
                        "model.bias=none",
                        "model.activation=swiglu",
                        "model.hidden_dropout=0.1",
                        "trainer.num_threads=1"};
  const std::vector<TestLayout> spread{
      {"e-one", {}},
      {"e-ep2", {"--ranks", "2", "model.expert_model_parallel_size=2"}},
      {"e-etp2", {"--ranks", "2", "model.expert_tensor_parallel_size=2", "model.zero_stage=1"}},
      {"e-tp2-ep2",
       {"--ranks", "2", "model.tensor_model_parallel_size=2", "model.sequence_parallel=true",
        "model.expert_tensor_parallel_size=1", "model.expert_model_parallel_size=2"}},
      {"e-cp2-ep2", {"--ranks", "2", "model.context_parallel_size=2", "model.expert_model_parallel_size=2"}},
      {"e-tp2-dp2-zero3",
       {"--ranks", "4", "model.tensor_model_parallel_size=2", "model.expert_model_parallel_size=2",
        "model.zero_stage=3", "model.optim.overlap_grad_sync=true"}},
      {"e-pp2-ep2",
       {"--ranks", "4", "model.pipeline_model_parallel_size=2", "model.expert_model_parallel_size=2"}}};
  for (const auto& layout : spread)
    stoa_ok(train(
        std::string(layout.name) + "-new",
        layout.arguments + model + Arguments{"trainer.max_steps=0", "model.optim.sched.warmup_steps=0"}));
  for (const auto& layout : spread)
    expect_equal_files("e-one-new", std::string(layout.name) + "-new", "step-0000000");
  const Arguments more =
      model + Arguments{"trainer.max_steps=6", "trainer.val_check_interval=3", "trainer.limit_val_batches=2",
                        "exp_manager.checkpoint_callback_params.save_top_k=-1"};
  for (const auto& layout : spread) stoa_ok(train(layout.name, layout.arguments + more));
  for (const auto& layout : spread) expect_near_runs("e-one", layout.name, 2e-5);
  if (have_mpi()) {
    const Outcome outcome = mpi(2, train("e-mpi", spread[1].arguments + more)).wait();
    ASSERT_EQ(outcome.exit_code, 0) << outcome.text();
    expect_same("e-mpi", "e-ep2");
    expect_equal_files("e-mpi", "e-ep2", "step-0000006");
  }
  for (std::size_t i = 0; i < spread.size(); ++i) {
    const std::string from = spread[i].name;
    fs::remove_all(path(from) / "checkpoints/step-0000006");
    fs::remove(path(from) / "checkpoints/latest");
    const Outcome outcome = stoa_ok(train(from, spread[(i + 1) % spread.size()].arguments + more));
    EXPECT_THAT(outcome.err, HasSubstr("RESUMED step-3 (verified)")) << from;
    expect_near_runs("e-one", from, 2e-5);
  }
  const Outcome refused =
      stoa(train("e-none", model + Arguments{"--ranks", "2", "model.expert_model_parallel_size=3"}));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("must divide num_moe_experts 4: the nearest are 2 and 4"));
  EXPECT_THAT(stoa(train("e-none", {"--ranks", "2", "model.expert_model_parallel_size=2"})).err,
              HasSubstr("are used only with num_moe_experts"));
}

// Matrices that ranks hold in parts, and moments of two kinds in checkpoints.
TEST_F(Ranks, MuonIsTheSameRunAndResumesInAnotherLayout) {
  const Arguments more{"model.optim.name=muon", "trainer.max_steps=6", "trainer.num_threads=1",
                       "exp_manager.checkpoint_callback_params.every_n_train_steps=3",
                       "exp_manager.checkpoint_callback_params.save_top_k=-1"};
  stoa_ok(train("m-one", more));
  const Arguments tensor{"--ranks", "2", "model.tensor_model_parallel_size=2"},
      sharded{"--ranks", "2", "model.zero_stage=1"};
  stoa_ok(train("m-tp2", tensor + more));
  stoa_ok(train("m-dp2", sharded + more));
  expect_near_runs("m-one", "m-tp2", 1e-3);
  expect_near_runs("m-one", "m-dp2", 1e-3);
  fs::remove_all(path("m-tp2") / "checkpoints/step-0000006");
  fs::remove(path("m-tp2") / "checkpoints/latest");
  EXPECT_THAT(stoa_ok(train("m-tp2", sharded + more)).err, HasSubstr("RESUMED step-3 (verified)"));
  expect_near_runs("m-one", "m-tp2", 1e-3);
}

TEST_F(Ranks, AKilledProcessEndsTheJobAndAnotherLayoutGoesOn) {
  if (!have_mpi()) GTEST_SKIP() << "there is no mpirun here";
  const Arguments more{"trainer.max_steps=100000", "trainer.num_threads=1",
                       "exp_manager.checkpoint_callback_params.every_n_train_steps=5"};
  Program job = mpi(2, train("killed", layouts()[3].arguments + more));
  ASSERT_TRUE(job.wait_until([&] { return fs::exists(path("killed/checkpoints/latest")); }));
  const pid_t second = second_rank();
  ASSERT_GT(second, 0);
  ASSERT_EQ(::kill(second, SIGKILL), 0);
  const Outcome outcome = job.wait();
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.text(), HasSubstr("rank 1"));
  const std::int64_t step =
      std::stoll(fs::read_symlink(path("killed/checkpoints/latest")).string().substr(5));
  const Outcome resumed = stoa_ok(train("killed", {"trainer.max_steps=" + std::to_string(step + 3)}));
  EXPECT_THAT(resumed.err, HasSubstr("RESUMED step-" + std::to_string(step)));
}

TEST_F(Ranks, TimeTheirCollectives) {
  const Outcome outcome = stoa({"bench", "collectives", "--ranks", "2", "--smallest", "1024", "--largest",
                                "4096", "--seconds", "0.01"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text();
  for (const char* name : {"all_reduce", "all_gather", "reduce_scatter"})
    EXPECT_THAT(outcome.out, HasSubstr(name));
  const Outcome refused = stoa({"bench", "collectives", "--smallest", "8", "--largest", "4"});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.err, HasSubstr("--smallest 8 and --largest 4"));
}

}  // namespace
}  // namespace stoa::e2e
