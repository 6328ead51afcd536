// `stoa bench train`, `gemm` and `decode` as the scripts under bench/ use it.
#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>

#include "base/test_paths.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::HasSubstr;

class BenchTrain : public Workplace {
 protected:
  // Two ranks, a step of warm-up and one that counts, with these lines as the standard input.
  Outcome stepwise(const std::string& lines) const {
    std::string command = "printf '" + lines + "' | " + test::program().string() + " bench train";
    for (const std::string& word : micro_model()) command += " '" + word + "'";
    command +=
        " model.vocab_size=300 --ranks 2 --threads 1 --check-communication --stepwise --warmup 1 --steps 1 "
        "--json";
    return stoa({"-c", command}, {directory(), {}, std::chrono::seconds(600), "/bin/sh"});
  }
};

TEST_F(BenchTrain, StepsWaitForTheirTurn) {
  const Outcome outcome = stepwise("\\n\\n");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.text();
  std::istringstream out(outcome.out);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(out, line);) lines.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(lines.size(), 3u) << outcome.out;
  EXPECT_EQ(lines[0]["step"], 1);
  EXPECT_EQ(lines[1]["step"], 2);
  EXPECT_EQ(lines[1]["seconds"], lines[2]["step_seconds"]);
}

TEST_F(BenchTrain, SaysThatNobodyTellsItToBegin) {
  const Outcome outcome = stepwise("\\n");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err,
              HasSubstr("--stepwise reads a line before each step: the input ended before step 2"));
}

TEST_F(BenchTrain, ProductsTakeTurnsUntilTheInputEnds) {
  const Outcome outcome = stoa({"-c", "printf '\\n\\n' | " + test::program().string() +
                                          " bench gemm --threads 2 --repeat 1 --stepwise"},
                               {directory(), {}, std::chrono::seconds(600), "/bin/sh"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.text();
  std::istringstream out(outcome.out);
  int step = 0;
  for (std::string line; std::getline(out, line);) EXPECT_EQ(nlohmann::json::parse(line)["step"], ++step);
  EXPECT_EQ(step, 2);
}

class BenchDecode : public BenchTrain {
 protected:
  Outcome decode(std::vector<std::string> more) const {
    std::vector<std::string> words{"bench", "decode"};
    for (const std::string& word : micro_model()) words.push_back(word);
    words.insert(words.end(), more.begin(), more.end());
    return stoa(words);
  }
};

TEST_F(BenchDecode, SetsAnswersBesideTheReadingOfMemory) {
  const Outcome outcome =
      decode({"--prompt", "3", "--tokens", "4", "--rounds", "3", "--threads", "2", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.text();
  const auto result = nlohmann::json::parse(outcome.out);
  for (const char* rate : {"tokens_per_second", "read_gigabytes_per_second"}) {
    std::vector<double> rounds = result["rounds"][rate];
    ASSERT_EQ(rounds.size(), 3u);
    std::sort(rounds.begin(), rounds.end());
    EXPECT_GT(rounds[0], 0);
    EXPECT_EQ(result[rate], rounds[1]);
  }
}

TEST_F(BenchDecode, RefusesAnswersBeyondTheModelsPositions) {
  const Outcome outcome = decode({"--prompt", "3", "--tokens", "100000"});
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("--prompt 3 and --tokens 100000 are 100003 positions, the model has"));
}

}  // namespace
}  // namespace stoa::e2e
