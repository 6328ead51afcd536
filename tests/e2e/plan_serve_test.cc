// `stoa plan serve` and `stoa bench engine`.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "base/file.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class PlanServe : public Workplace {
 protected:
  // A machine whose passes take 10 ms and a little more per token, times `slow`.
  void write_speed(const std::string& name, double slow) const {
    const json speed{{"model", "small"},
                     {"machine", "made up"},
                     {"limits",
                      {{"block_tokens", 16},
                       {"blocks", 2000},
                       {"context", 2048},
                       {"pass_tokens", 512},
                       {"sequences", 8},
                       {"scored", 8}}},
                     {"pass_seconds_by_tokens", {{1, 0.01 * slow}, {512, 0.06 * slow}}},
                     {"more_seconds_by_logits", {{1, 0.0}, {8, 0.001 * slow}}},
                     {"bytes", {{"keys_and_values_of_a_token", 1000.0}, {"other", 1e9}}},
                     {"seconds_per_token_read", 1e-8 * slow},
                     {"seconds_per_token_pair", 1e-9 * slow}};
    write_text(path(name), speed.dump());
  }
  json planned(const std::string& speed, const std::string& rate, const std::string& slo,
               const Arguments& more = {}) const {
    return json::parse(stoa_ok(Arguments{"plan", "serve", "--measured", speed, "--rate", rate, "--slo", slo,
                                         "--input", "100", "--output", "30", "--requests", "300", "--json"} +
                               more)
                           .out);
  }
};

TEST_F(PlanServe, SaysHowManyMachinesKeepTheLimits) {
  write_speed("fast.json", 1);
  write_speed("slow.json", 2);
  const json few = planned("fast.json", "0.01", "ttft=200ms,tpot=20ms");
  EXPECT_EQ(few["machines"], 1);
  EXPECT_EQ(few["rows"][0]["good_share"], 1);
  const json fast = planned("fast.json", "80", "ttft=200ms,tpot=20ms"),
             slow = planned("slow.json", "80", "ttft=400ms,tpot=40ms");
  const int machines = fast["machines"];
  EXPECT_GE(machines, 3);
  EXPECT_NEAR(slow["machines"].get<int>(), 2 * machines, 1);
  EXPECT_GE(planned("fast.json", "100", "ttft=200ms,tpot=20ms")["machines"], machines);
  for (const json& row : fast["rows"]) {
    EXPECT_EQ(row["good_share"].get<double>() >= 0.95, row["machines"].get<int>() >= machines) << row;
    EXPECT_LE(row["ttft_seconds"]["p50"], row["ttft_seconds"]["p99"]);
  }
  EXPECT_EQ(fast["rows"].back()["machines"], machines + 1);
  EXPECT_GT(
      planned("fast.json", "80", "ttft=200ms,tpot=20ms", {"--good-share", "0.5"})["most_rate_per_machine"],
      fast["most_rate_per_machine"]);
  const json never = planned("fast.json", "1", "ttft=1ms");
  EXPECT_EQ(never["machines"], nullptr);
  EXPECT_THAT(stoa_ok({"plan", "serve", "--measured", "fast.json", "--slo", "ttft=1ms"}).out,
              HasSubstr("no number of machines is enough"));
}

TEST_F(PlanServe, AModelIsMeasuredAndPlannedWith) {
  stoa_ok(train("run", {"trainer.max_steps=2"}));
  const Outcome measured = stoa_ok({"bench", "engine", "run", "--rounds", "1", "--json"});
  write_text(path("engine.json"), measured.out);
  const json speed = json::parse(measured.out);
  EXPECT_EQ(speed["limits"]["context"], 32);
  EXPECT_EQ(speed["more_seconds_by_logits"].back()[0], 32);
  EXPECT_GT(speed["memory"]["token_bytes"], 0);
  EXPECT_GT(speed["memory"]["share"], 0);
  EXPECT_THAT(stoa_ok({"bench", "engine", "run", "--rounds", "1"}).out, HasSubstr("ms per pass"));
  write_text(path("lengths.csv"), "# prompt, answer\n10,4\n20,8\n");
  const Outcome table =
      stoa_ok({"plan", "serve", "--measured", "engine.json", "--rate", "5", "--lengths", "lengths.csv"});
  EXPECT_THAT(table.out, HasSubstr("machine is needed"));
  EXPECT_EQ(json_of({"plan", "serve", "run", "--rate", "1", "--input", "10", "--output", "4", "--requests",
                     "50", "--json"})["machines"],
            1);
  EXPECT_GE(json_of({"plan", "serve", "gpt-5b", "--cluster", "dgx-a100-80gb", "--rate", "40", "--requests",
                     "200", "--json"})["machines"],
            2);
}

TEST_F(PlanServe, EncoderDecodersAreMeasuredAndPlanned) {
  stoa_ok(Arguments{"tokenizer", "train", "text.jsonl", "--kind", "unigram", "--vocab-size", "60",
                    "--sentinels", "20", "--output", "pieces"});
  stoa_ok({"data", "prepare", "text.jsonl", "--tokenizer", "pieces", "--output", "pairs"});
  stoa_ok(train("run", {"model.data=pairs", "model.tokenizer=pieces", "model.kind=t5", "model.bias=none",
                        "model.position_embedding_type=relative", "model.t5.seq_length_dec=16",
                        "trainer.max_steps=2"}));
  const Outcome measured =
      stoa_ok({"bench", "engine", "run", "--rounds", "2", "--max-context", "100", "--json"});
  write_text(path("engine.json"), measured.out);
  const json speed = json::parse(measured.out);
  EXPECT_EQ(speed["limits"]["context"], 100);
  EXPECT_EQ(speed["limits"]["source_tokens"], 100);
  EXPECT_EQ(speed["more_seconds_by_source_tokens"].back()[0], 100);
  EXPECT_THAT(stoa_ok({"bench", "engine", "run", "--rounds", "1", "--max-context", "100"}).out,
              HasSubstr("each 1000 tokens of its source"));
  const Arguments asked{"--rate", "1", "--input", "90", "--output", "80", "--requests", "50", "--json"};
  EXPECT_EQ(json_of(Arguments{"plan", "serve", "--measured", "engine.json"} + asked)["machines"], 1);
  EXPECT_THAT(stoa({"plan", "serve", "--measured", "engine.json", "--input", "90", "--output", "120"}).err,
              HasSubstr("a source of 90 tokens and an answer of 120 do not fit: sources have at most 100"));
  const json predicted = json_of(Arguments{"plan", "serve", "t5-220m", "--cluster", "laptop-cpu"} + asked);
  EXPECT_EQ(predicted["machines"], 1);
  // The formulas of a request alone are those of `plan inference`.
  const json alone = json_of({"plan", "inference", "t5-220m", "--cluster", "laptop-cpu", "--input", "90",
                              "--output", "80", "--batch", "1", "--json"})["grid"][0];
  EXPECT_NEAR(predicted["alone"]["ttft_seconds"].get<double>() * 1e3 / alone["first_token_ms"].get<double>(),
              1, 0.02);
  EXPECT_NEAR(predicted["alone"]["tpot_seconds"].get<double>() * 1e3 / alone["per_token_ms"].get<double>(), 1,
              0.02);
}

TEST_F(PlanServe, BatchesArePlannedWithMeasuredPasses) {
  write_speed("fast.json", 1);
  const json plan = json_of({"plan", "inference", "--measured", "fast.json", "--input", "100", "--output",
                             "21", "--batch", "1,8,16", "--max-latency", "400", "--json"});
  const json& alone = plan["grid"][0];
  // A pass of 100 tokens, then 20 of one: lines between the given points.
  const double pass = 10 + 50 * 99 / 511.0;
  EXPECT_NEAR(alone["first_token_ms"].get<double>(), pass, 0.02);
  EXPECT_NEAR(alone["per_token_ms"].get<double>(), 10, 0.01);
  EXPECT_NEAR(alone["latency_ms"].get<double>(), pass + 200, 0.1);
  EXPECT_NEAR(alone["kv_bytes"].get<double>(), 121e3, 1);
  EXPECT_NEAR(alone["total_bytes"].get<double>(), 1e9 + 121e3, 1);
  EXPECT_EQ(plan["grid"][1]["fits"], true);
  EXPECT_EQ(plan["grid"][2]["fits"], false);  // eight texts share passes, the others wait
  EXPECT_GT(plan["grid"][2]["latency_ms"], plan["grid"][1]["latency_ms"]);
  EXPECT_EQ(plan["best"]["batch"], 8);
  // A load of one request that comes alone takes as long.
  EXPECT_NEAR(planned("fast.json", "0.01", "ttft=200ms")["alone"]["ttft_seconds"].get<double>() * 1e3, pass,
              0.02);
  EXPECT_THAT(stoa_ok({"plan", "inference", "--measured", "fast.json"}).out,
              HasSubstr("60 tokens in, 20 out, on made up, measured with small"));
  json old = json::parse(read_text(path("fast.json")));
  old.erase("bytes");
  write_text(path("old.json"), old.dump());
  const std::vector<std::pair<Arguments, std::string>> cases{
      {{}, "give --cluster, or --measured FILE"},
      {{"--measured", "old.json"}, "says nothing of memory"},
      {{"tiny", "--measured", "fast.json"}, "names its model"},
      {{"--measured", "fast.json", "--input", "2048"}, "do not fit a context of 2048"},
      {{"--measured", "fast.json", "--tp", "2"}, "--tp"},
      {{"--measured", "fast.json", "--cluster", "laptop-cpu"}, "--cluster"}};
  for (const auto& [words, message] : cases) {
    const Outcome outcome = stoa(Arguments{"plan", "inference"} + words);
    EXPECT_NE(outcome.exit_code, 0) << message;
    EXPECT_THAT(outcome.err, HasSubstr(message));
  }
}

TEST_F(PlanServe, BadInputIsNamed) {
  write_speed("fast.json", 1);
  write_text(path("nothing.json"), "{}");
  write_text(path("lengths.csv"), "10,20\nten,20\n");
  const std::vector<std::pair<Arguments, std::string>> cases{
      {{}, "give a MODEL, or --measured FILE"},
      {{"--measured", "nothing.json"}, "bench engine"},
      {{"--measured", "fast.json", "--slo", "tfft=1s"}, "expected ttft=TIME"},
      {{"--measured", "fast.json", "--rate", "0"}, "--rate"},
      {{"--measured", "fast.json", "--input", "3000"}, "do not fit a context of 2048"},
      {{"--measured", "fast.json", "--lengths", "lengths.csv"}, "lengths.csv:2"},
      {{"--measured", "fast.json", "--tp", "2"}, "--cluster"},
      {{"tiny", "--measured", "fast.json"}, "names its model"},
      {{"gpt-175b", "--cluster", "laptop-cpu"}, "the weights take"}};
  for (const auto& [words, message] : cases) {
    const Outcome outcome = stoa(Arguments{"plan", "serve"} + words);
    EXPECT_NE(outcome.exit_code, 0) << message;
    EXPECT_THAT(outcome.err, HasSubstr(message));
  }
}

}  // namespace
}  // namespace stoa::e2e
