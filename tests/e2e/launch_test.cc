// Ranks that a launcher without MPI starts: processes that RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT tell
// where they meet.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "base/file.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::AllOf, ::testing::HasSubstr;

std::string free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof address;
  EXPECT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), length), 0);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  ::close(fd);
  return std::to_string(ntohs(address.sin_port));
}

class LaunchedRanks : public Workplace {
 protected:
  // stoa with variables "NAME=value".
  std::unique_ptr<Program> start(const Arguments& variables, const Arguments& arguments) const {
    return std::make_unique<Program>(
        variables + Arguments{STOA_PROGRAM} + arguments,
        ProgramOptions{directory(), {}, std::chrono::seconds(120), "/usr/bin/env"});
  }
  static Arguments variables_of(int rank, int size, const std::string& port) {
    return {"RANK=" + std::to_string(rank), "WORLD_SIZE=" + std::to_string(size), "MASTER_ADDR=127.0.0.1",
            "MASTER_PORT=" + port};
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
      {2, {"model.context_parallel_size=2", "model.zero_stage=3"}}};
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
  const auto begin = std::chrono::steady_clock::now();
  ranks[1]->signal(SIGKILL);
  const Outcome outcome = ranks[0]->wait();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("ERROR rank 0@"), HasSubstr("the connection to rank 1@"),
                                 HasSubstr("was lost: its process is gone")));
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
