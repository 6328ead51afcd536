// Ranks that a launcher without MPI starts: processes that RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT tell
// where they meet.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>

#include "base/file.h"
#include "base/test_paths.h"
#include "launched.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::AllOf, ::testing::HasSubstr;

class LaunchedRanks : public Workplace {
 protected:
  // stoa with variables "NAME=value". `place`: where it runs, if not in the directory of the test.
  std::unique_ptr<Program> start(const Arguments& variables, const Arguments& arguments,
                                 const fs::path& place = {}) const {
    ProgramOptions options;
    options.directory = place.empty() ? directory() : place;
    options.program = "/usr/bin/env";
    return std::make_unique<Program>(variables + Arguments{test::program().string()} + arguments, options);
  }
  std::vector<std::unique_ptr<Program>> start_all(int size, const Arguments& arguments) const {
    const std::string port = free_port();
    std::vector<std::unique_ptr<Program>> ranks;
    for (int r = 0; r < size; ++r) ranks.push_back(start(variables_of(r, size, port), arguments));
    return ranks;
  }
};

TEST_F(LaunchedRanks, AreTheSameRunAsThreads) {
  const std::vector<std::pair<int, Arguments>> layouts{
      {2, {"model.zero_stage=1"}},
      {4, {"model.tensor_model_parallel_size=2", "model.pipeline_model_parallel_size=2"}},
      {2, {"model.context_parallel_size=2", "model.zero_stage=3"}},
      {3, {"model.pipeline_model_parallel_size=3", "model.num_layers=3"}}};
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const auto& [size, layout] = layouts[i];
    const Arguments more =
        layout + Arguments{"trainer.max_steps=4", "trainer.precision=bf16", "trainer.num_threads=1"};
    const std::string threads = "threads" + std::to_string(i), processes = "processes" + std::to_string(i);
    stoa_ok(train(threads, more + Arguments{"--ranks", std::to_string(size)}));
    const auto ranks = start_all(size, train(processes, more));
    for (const auto& rank : ranks) {
      const Outcome outcome = rank->wait();
      ASSERT_EQ(outcome.exit_code, 0) << outcome.text();
    }
    expect_same(threads, processes);
  }
}

TEST_F(LaunchedRanks, AKilledRankIsNamed) {
  const auto ranks = start_all(2, train("killed", {"trainer.max_steps=100000", "trainer.num_threads=1"}));
  ASSERT_TRUE(ranks[0]->wait_until([&] { return fs::exists(path("killed/metrics.jsonl")); }));
  ranks[1]->signal(SIGKILL);
  const Outcome outcome = ranks[0]->wait();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("ERROR rank 0@"), HasSubstr("the connection to rank 1@"),
                                 HasSubstr("was lost: its process is gone")));
}

// Rank 0 waits for rank 1, and that for rank 2.
TEST_F(LaunchedRanks, AStoppedRankIsNamedAndNoOther) {
  const auto ranks =
      start_all(3, train("stopped", {"model.pipeline_model_parallel_size=3", "model.num_layers=3",
                                     "trainer.max_steps=100000", "trainer.num_threads=1",
                                     "trainer.communication_timeout=2s"}));
  ASSERT_TRUE(ranks[0]->wait_until([&] { return fs::exists(path("stopped/metrics.jsonl")); }));
  ranks[2]->signal(SIGSTOP);
  std::string told;
  for (const int rank : {0, 1}) {
    const Outcome outcome = ranks[static_cast<std::size_t>(rank)]->wait();
    EXPECT_EQ(outcome.exit_code, 1);
    told += outcome.err;
  }
  ranks[2]->signal(SIGKILL);
  EXPECT_THAT(
      told, ::testing::ContainsRegex("ERROR rank [01]@[^ ]* waits [0-9.]+ s: .*rank 2@[^ ]* never arrived"));
  EXPECT_THAT(told, ::testing::Not(::testing::ContainsRegex("rank [01]@[^ ]* never arrived")));
}

TEST_F(LaunchedRanks, AllEndAlikeAfterASignal) {
  const auto ranks = start_all(2, train("signalled", {"trainer.max_steps=100000", "trainer.num_threads=1"}));
  ASSERT_TRUE(ranks[0]->wait_until([&] { return fs::exists(path("signalled/metrics.jsonl")); }));
  ranks[1]->signal(SIGTERM);
  const Outcome first = ranks[0]->wait(), second = ranks[1]->wait();
  EXPECT_EQ(first.exit_code, 130) << first.text();
  EXPECT_EQ(second.exit_code, 130) << second.text();
  EXPECT_THAT(first.err, HasSubstr("a checkpoint was saved"));
  EXPECT_THAT(second.err, ::testing::Not(HasSubstr("ERROR")));
}

TEST_F(LaunchedRanks, AMeetingEndsAtItsTimeOutAndAtASignal) {
  const std::string port = free_port();
  const auto tired = start(variables_of(0, 2, port), train("met", {"trainer.communication_timeout=1s"}));
  const Outcome outcome = tired->wait();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("of 2 ranks, 1 did not connect to 127.0.0.1:" + port + " within 1.0 s"));
  const auto stopped = start(variables_of(1, 2, port), train("met"));
  // It looks for rank 0 as long as it may: from some time on it obeys.
  ASSERT_TRUE(stopped->wait_until([&] { return stopped->handles(SIGTERM); }));
  stopped->signal(SIGTERM);
  EXPECT_EQ(stopped->wait().exit_code, 130);
}

// The second rank runs in a place where the same paths hold something else.
TEST_F(LaunchedRanks, RanksThatSeeDifferentThingsDoNotStart) {
  stoa_ok(train("weights", {"trainer.max_steps=1", "model.optim.sched.warmup_steps=0"}));
  const auto refused = [&](const std::string& name, const Arguments& more, const std::string& what) {
    const std::string port = free_port();
    const Arguments arguments = train(name, more + Arguments{"trainer.communication_timeout=5s"});
    const auto first = start(variables_of(0, 2, port), arguments),
               second = start(variables_of(1, 2, port), arguments, path("elsewhere"));
    const Outcome silent = first->wait(), told = second->wait();
    EXPECT_EQ(silent.exit_code, 1) << silent.text();
    EXPECT_EQ(told.exit_code, 1) << told.text();
    EXPECT_THAT(told.err, ::testing::ContainsRegex("ERROR rank 1@[^ ]*: " + what)) << name;
    EXPECT_THAT(silent.err, ::testing::Not(HasSubstr("ERROR"))) << name;
    EXPECT_FALSE(fs::exists(path(name))) << "nothing is left of it";
  };
  const auto copy = [&] {
    fs::remove_all(path("elsewhere"));
    fs::create_directory(path("elsewhere"));
    for (const char* item : {"tok", "data.idx", "data.bin", "weights"})
      fs::copy(path(item), path("elsewhere") / item,
               fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  };
  copy();
  refused("own", {},
          "files that rank 0@[^ ]* writes into the run directory 'own' are not visible here within 5 s");
  copy();
  std::string bytes = read_text(path("data.bin"));
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2)
    bytes[i] = static_cast<char>(bytes[i] ^ 1);  // another token
  write_text(path("elsewhere/data.bin"), bytes);
  refused("corpus", {},
          "its data differs from that of rank 0@[^ ]*: 'data.bin: [0-9]+ bytes, content [0-9a-f]+' here, "
          "'data.bin: [0-9]+ bytes, content [0-9a-f]+' there");
  copy();
  const fs::path file = path("elsewhere/weights/checkpoints/step-0000001/model/model.safetensors");
  bytes = read_text(file);
  bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 1);
  write_text(file, bytes);
  refused(path("shared").string(), {"restore_from_path=weights"},
          "its starting point differs from that of rank 0@[^ ]*: 'weights .*model.safetensors");
}

// The second rank's copy of the newest checkpoint is damaged, in a file that no weights are read from: by
// itself, it would take the checkpoint before.
TEST_F(LaunchedRanks, TheFirstChoosesTheCheckpointForAll) {
  const Arguments constant{"model.optim.sched.warmup_steps=0"};
  for (const char* steps : {"1", "2"})
    stoa_ok(train("weights", constant + Arguments{std::string("trainer.max_steps=") + steps}));
  fs::create_directory(path("elsewhere"));
  for (const char* item : {"tok", "data.idx", "data.bin", "weights"})
    fs::copy(path(item), path("elsewhere") / item,
             fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  const fs::path file = path("elsewhere/weights/checkpoints/step-0000002/state/optimizer.safetensors");
  std::string bytes = read_text(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_text(file, bytes);
  const Arguments more =
      constant + Arguments{"restore_from_path=weights", "trainer.max_steps=2", "trainer.num_threads=1"};
  EXPECT_THAT(stoa_ok(train("threads", more + Arguments{"--ranks", "2"})).text(),
              HasSubstr("weights from weights/checkpoints/step-0000002"));
  const std::string port = free_port();
  const Arguments arguments = train(path("processes").string(), more);
  const auto first = start(variables_of(0, 2, port), arguments),
             second = start(variables_of(1, 2, port), arguments, path("elsewhere"));
  for (const auto* rank : {&first, &second}) {
    const Outcome outcome = (*rank)->wait();
    ASSERT_EQ(outcome.exit_code, 0) << outcome.text();
  }
  expect_same("threads", "processes");
}

// A token that no vocabulary has, in what the second rank reads first.
TEST_F(LaunchedRanks, AnErrorOfOneEndsAllWithItsMessage) {
  std::string bytes = read_text(path("data.bin"));
  for (std::size_t i = bytes.size() / 2; i + 1 < bytes.size(); i += 2) bytes[i] = bytes[i + 1] = '\x7f';
  write_text(path("spoilt.bin"), bytes);
  fs::copy_file(path("data.idx"), path("spoilt.idx"));
  const auto ranks = start_all(2, train("ended", {"model.data=spoilt", "trainer.num_threads=1"}));
  std::string told;
  for (const auto& rank : ranks) {
    const Outcome outcome = rank->wait();
    EXPECT_EQ(outcome.exit_code, 1) << outcome.text();
    told += outcome.err;
  }
  EXPECT_THAT(told, ::testing::ContainsRegex("ERROR rank [01]@.*token .* but the vocabulary has 300"));
}

TEST_F(LaunchedRanks, TwoConfigurationsAreRefusedOnce) {
  const std::string port = free_port();
  const auto first = start(variables_of(0, 2, port), train("mixed"));
  const auto second = start(variables_of(1, 2, port), train("mixed", {"model.hidden_dropout=0.25"}));
  const Outcome silent = first->wait(), outcome = second->wait();
  EXPECT_EQ(silent.exit_code, 1);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("ERROR rank 1@"), HasSubstr("its configuration differs from that of rank 0@"),
                    HasSubstr("'hidden_dropout: 0.25' here, 'hidden_dropout: 0.0' there")));
  EXPECT_THAT(silent.err, ::testing::Not(HasSubstr("ERROR")));
}

TEST_F(LaunchedRanks, WrongVariablesAreOneClearError) {
  const std::vector<std::pair<Arguments, std::string>> wrong{
      {{"WORLD_SIZE=2"}, "WORLD_SIZE=2, but RANK is not set"},
      {{"WORLD_SIZE=2", "RANK=2", "MASTER_ADDR=localhost", "MASTER_PORT=1"},
       "RANK=2 in a job of WORLD_SIZE=2 ranks: ranks count from 0 to 1"},
      {{"WORLD_SIZE=2", "RANK=0", "MASTER_PORT=1"}, "WORLD_SIZE=2, but MASTER_ADDR is not set"},
      {{"WORLD_SIZE=2", "RANK=0", "OMPI_COMM_WORLD_SIZE=3"},
       "MPI's launcher started 3 processes, but WORLD_SIZE=2"}};
  for (const auto& [variables, message] : wrong) {
    const Outcome outcome = start(variables, train("none"))->wait();
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("ERROR"), HasSubstr(message)));
  }
  const auto ranks = start_all(2, train("none", {"--ranks", "3"}));
  std::string told;
  for (const auto& rank : ranks) told += rank->wait().err;
  EXPECT_THAT(told, HasSubstr("--ranks 3, but the launcher started 2 processes"));
}

}  // namespace
}  // namespace stoa::e2e
