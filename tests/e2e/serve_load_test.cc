// `stoa bench serve`: a server under load.
#include <gmock/gmock.h>

#include <string>

#include "base/file.h"
#include "served.h"

namespace stoa::e2e {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr const char* kEnded = "vllm:request_success_total{model_name=\"chat\",finished_reason=\"length\"}";

class ServeLoad : public Served {
 protected:
  Arguments bench(const Arguments& more) const {
    return Arguments{"bench", "serve", fmt::format("http://127.0.0.1:{}/v1", port())} + more;
  }
};

TEST_F(ServeLoad, ClientsAndArrivalsAreMeasured) {
  serve();
  for (const bool chat : {false, true}) {
    Arguments words =
        bench({"--clients", "1,4", "--requests", "9", "--input", "40", "--output", "12", "--json"});
    if (chat) words.push_back("--chat");
    const json result = json::parse(stoa_ok(words).out);
    EXPECT_EQ(result["model"], "chat");
    ASSERT_EQ(result["loads"].size(), 2u);
    for (const json& load : result["loads"]) {
      EXPECT_EQ(load["requests"], 9);
      EXPECT_EQ(load["answered"], 9);
      EXPECT_EQ(load["tokens"], 9 * 12);
      EXPECT_NEAR(load["prompt_tokens"].get<double>() / 9, chat ? 50 : 40, chat ? 25 : 12);
      EXPECT_GT(load["ttft_seconds"]["p50"], 0);
      EXPECT_EQ(load["tpot_seconds"]["count"], 9);
      EXPECT_GE(load["latency_seconds"]["p50"], load["ttft_seconds"]["p50"]);
      EXPECT_EQ(load["errors"], json::object());
    }
  }
  const double before = metric(kEnded);
  const json open = json::parse(
      stoa_ok(bench({"--rate", "40", "--requests", "20", "--output", "3", "--slo", "e2e=0.001ms", "--json"}))
          .out);
  EXPECT_EQ(open["loads"][0]["answered"], 20);
  EXPECT_EQ(open["loads"][0]["good"], 0);
  EXPECT_GT(open["loads"][0]["seconds"], 0.1);
  EXPECT_EQ(metric(kEnded) - before, 21);  // and the trial request
  expect_idle();
}

TEST_F(ServeLoad, PromptsOfAFileAndATableForPeople) {
  serve();
  write_text(path("prompts.txt"), "the stone walks\nby the river\n");
  const Outcome outcome =
      stoa_ok(bench({"--prompts", "prompts.txt", "--clients", "2", "--seconds", "0.5", "--output", "4"}));
  EXPECT_THAT(outcome.out, HasSubstr("2 clients"));
  EXPECT_THAT(outcome.out, HasSubstr("TTFT"));
}

TEST_F(ServeLoad, WhatFailsIsCountedAndNamed) {
  serve();
  const Outcome refused = stoa(bench({"--prompts", "prompts.txt", "--clients", "1"}));
  EXPECT_EQ(refused.exit_code, 1);
  write_text(path("prompts.txt"), "the stone walks\n");
  const Outcome failed =
      stoa(bench({"--prompts", "prompts.txt", "--requests", "3", "--body", "{\"temperature\":-1}"}));
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.err, HasSubstr("no request was answered"));
  EXPECT_THAT(failed.err, HasSubstr("temperature"));
  const Outcome nobody = stoa({"bench", "serve", "http://127.0.0.1:1/v1"});
  EXPECT_EQ(nobody.exit_code, 1);
  EXPECT_THAT(nobody.err, HasSubstr("127.0.0.1:1"));
}

}  // namespace
}  // namespace stoa::e2e
