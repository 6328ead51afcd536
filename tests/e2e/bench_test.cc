// `stoa bench train` as the scripts under bench/ use it.
#include <gmock/gmock.h>

#include <sstream>

#include "workplace.h"

namespace stoa::e2e {
namespace {

using testing::HasSubstr;

class BenchTrain : public Workplace {
 protected:
  // Two ranks, a step of warm-up and one that counts, with these lines as the standard input.
  Outcome stepwise(const std::string& lines) const {
    std::string command = "printf '" + lines + "' | " STOA_PROGRAM " bench train";
    for (const std::string& word : micro_model()) command += " '" + word + "'";
    command +=
        " model.vocab_size=300 --ranks 2 --threads 1 --check-communication --stepwise --warmup 1 --steps 1 "
        "--json";
    return stoa({"-c", command}, {directory(), {}, std::chrono::seconds(120), "/bin/sh"});
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

}  // namespace
}  // namespace stoa::e2e
