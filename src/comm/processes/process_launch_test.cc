#include "comm/processes/process_launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace stoa::comm {
namespace {

using Variables = std::map<std::string, std::string>;

ProcessLaunch launch_of(const Variables& variables) {
  return process_launch([&](const char* name) -> const char* {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

Variables four_ranks() {
  return {{"RANK", "2"},
          {"WORLD_SIZE", "4"},
          {"LOCAL_RANK", "0"},
          {"MASTER_ADDR", "n01"},
          {"MASTER_PORT", "29500"}};
}

TEST(ProcessLaunch, VariablesSayWhereTheRanksMeet) {
  Variables variables = four_ranks();
  ProcessLaunch launch = launch_of(variables);
  ASSERT_TRUE(launch.meeting);
  EXPECT_EQ(launch.mpi_ranks, 1);
  EXPECT_EQ(launch.meeting->rank, 2);
  EXPECT_EQ(launch.meeting->size, 4);
  EXPECT_EQ(launch.meeting->local_rank, 0);
  EXPECT_EQ(launch.meeting->address, "n01");
  EXPECT_EQ(launch.meeting->port, 29500);
  variables.erase("LOCAL_RANK");
  EXPECT_FALSE(launch_of(variables).meeting->local_rank);
  variables["TORCHELASTIC_RUN_ID"] = "run 7";
  EXPECT_EQ(launch_of(variables).meeting->job, "run 7");
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";  // torchrun itself listens there
  EXPECT_EQ(launch_of(variables).meeting->port, 29501);
}

TEST(ProcessLaunch, OneProcessAloneMeetsNobody) {
  for (const Variables& variables :
       {Variables{}, Variables{{"RANK", "0"}, {"WORLD_SIZE", "1"}}, Variables{{"RANK", "3"}},
        Variables{{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}},
        Variables{{"OMPI_COMM_WORLD_SIZE", "1"}}}) {
    EXPECT_FALSE(launch_of(variables).meeting);
    EXPECT_EQ(launch_of(variables).mpi_ranks, 1);
  }
}

TEST(ProcessLaunch, MpiComesFirstAndMustAgree) {
  Variables variables = four_ranks();
  variables["OMPI_COMM_WORLD_SIZE"] = "4";
  EXPECT_EQ(launch_of(variables).mpi_ranks, 4);
  EXPECT_FALSE(launch_of(variables).meeting);
  variables["WORLD_SIZE"] = "2";
  EXPECT_THAT([&] { launch_of(variables); },
              testing::ThrowsMessage<ConfigError>(::testing::HasSubstr(
                  "MPI's launcher started 4 processes, but WORLD_SIZE=2: unset WORLD_SIZE")));
}

TEST(ProcessLaunch, SlurmWithoutMpiMeetsWhereAnAddressIsGiven) {
  Variables variables{
      {"SLURM_STEP_NUM_TASKS", "3"}, {"SLURM_PROCID", "1"}, {"SLURM_LOCALID", "1"}, {"SLURM_JOB_ID", "77"}};
  EXPECT_EQ(launch_of(variables).mpi_ranks, 3) << "MPI says what is wrong when it sees one rank";
  variables["MASTER_ADDR"] = "n01";
  variables["MASTER_PORT"] = "5000";
  const ProcessLaunch launch = launch_of(variables);
  ASSERT_TRUE(launch.meeting);
  EXPECT_EQ(launch.meeting->rank, 1);
  EXPECT_EQ(launch.meeting->size, 3);
  EXPECT_EQ(launch.meeting->local_rank, 1);
  EXPECT_EQ(launch.meeting->job, "77");
  variables["PMIX_RANK"] = "1";  // srun --mpi=pmix
  EXPECT_EQ(launch_of(variables).mpi_ranks, 3);
  EXPECT_FALSE(launch_of(variables).meeting);
}

TEST(ProcessLaunch, NamesTheVariableThatIsMissingOrWrong) {
  const auto without = [](const char* name) {
    Variables variables = four_ranks();
    variables.erase(name);
    return variables;
  };
  const auto with = [](const char* name, const char* value) {
    Variables variables = four_ranks();
    variables[name] = value;
    return variables;
  };
  const std::vector<std::pair<Variables, std::string>> wrong{
      {without("RANK"), "WORLD_SIZE=4, but RANK is not set"},
      {without("WORLD_SIZE"), "RANK=2 and MASTER_ADDR=n01, but WORLD_SIZE is not set"},
      {without("MASTER_ADDR"), "WORLD_SIZE=4, but MASTER_ADDR is not set"},
      {without("MASTER_PORT"), "WORLD_SIZE=4, but MASTER_PORT is not set"},
      {with("RANK", "4"), "RANK=4 in a job of WORLD_SIZE=4 ranks: ranks count from 0 to 3"},
      {with("RANK", "two"), "RANK=two: expected a number between 0 and"},
      {with("WORLD_SIZE", "0"), "WORLD_SIZE=0: expected a number between 1 and"},
      {with("MASTER_PORT", "99999"), "MASTER_PORT=99999: expected a number between 1 and 65535"},
      {with("LOCAL_RANK", "-1"), "LOCAL_RANK=-1: expected a number between 0 and"}};
  for (const auto& [variables, message] : wrong)
    EXPECT_THAT([&] { launch_of(variables); },
                testing::ThrowsMessage<ConfigError>(::testing::HasSubstr(message)));
}

}  // namespace
}  // namespace stoa::comm
