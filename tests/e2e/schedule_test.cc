// `schedule show`: what it says about a schedule before it runs.
#include "workplace.h"

namespace stoa::e2e {
namespace {

class ScheduleShow : public Workplace {};

TEST_F(ScheduleShow, EveryFormOfEverySchedule) {
  for (const char* name : {"gpipe", "1f1b", "interleaved", "bfs", "zb-h1", "zb-h2", "zb-v", "interleaved-zb",
                           "dualpipev", "v-half", "v-min"}) {
    const Arguments show{"schedule", "show", name, "--stages", "4", "--microbatches", "8"};
    const auto json = json_of(show + Arguments{"--format", "json"});
    EXPECT_EQ(json["ranks"].size(), 4u) << name;
    EXPECT_EQ(json["microbatches"], 8) << name;
    const Outcome svg = stoa(show + Arguments{"--format", "svg"});
    EXPECT_EQ(svg.exit_code, 0) << svg.text();
    EXPECT_EQ(svg.out.substr(0, 5), "<svg ") << name;
  }
}

TEST_F(ScheduleShow, TimesOfChunks) {
  const Arguments show{"schedule",       "show", "1f1b",     "--stages", "2",
                       "--microbatches", "4",    "--format", "json"};
  const auto even = json_of(show), uneven = json_of(show + Arguments{"--chunk-times", "1,2"});
  EXPECT_EQ(even["computation"], 12);
  EXPECT_EQ(uneven["computation"], 24);
  const Outcome wrong = stoa(show + Arguments{"--chunk-times", "1,2,3"});
  EXPECT_NE(wrong.exit_code, 0);
  EXPECT_NE(wrong.err.find("chunk weights must be 2 positive numbers, got 3"), std::string::npos)
      << wrong.text();
}

TEST_F(ScheduleShow, SchedulesRunBesideTheirSimulation) {
  const auto bench = json_of(Arguments{"bench", "pipeline"} + micro_model() +
                             Arguments{"model.vocab_size=300", "model.num_layers=4", "--schedules",
                                       "1f1b,interleaved,zb-v", "--rounds", "1", "--json"});
  ASSERT_EQ(bench["schedules"].size(), 3u);
  for (const auto& s : bench["schedules"]) {
    EXPECT_GT(s["step_seconds"].get<double>(), 0) << s;
    EXPECT_GT(s["simulated_seconds"].get<double>(), 0) << s;
  }
  EXPECT_EQ(bench["schedules"][0]["speed"], 1);
}

TEST_F(ScheduleShow, RefusesWithTheNearestChoice) {
  const Outcome refused = stoa({"schedule", "show", "interleaved", "--stages", "4", "--microbatches", "6"});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_NE(refused.err.find("use 4 or 8 microbatches"), std::string::npos) << refused.text();
  const Outcome unknown = stoa({"schedule", "show", "zbv", "--stages", "4", "--microbatches", "6"});
  EXPECT_NE(unknown.err.find("zb-v"), std::string::npos) << unknown.text();
}

}  // namespace
}  // namespace stoa::e2e
