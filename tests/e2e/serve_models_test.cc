// Other models than one that answers: encoders, calls of tools, a run that is still trained.
#include <gmock/gmock.h>

#include <sstream>
#include <thread>

#include "base/file.h"
#include "served.h"

namespace stoa::e2e {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ServeModels : public Served {};

TEST_F(ServeModels, EncodersEmbedScoreAndRank) {
  write_sentences();
  stoa_ok(
      {"tokenizer", "train", "text.jsonl", "--kind", "wordpiece", "--vocab-size", "200", "--output", "wp"});
  stoa_ok(
      {"data", "prepare", "sentences.jsonl", "--tokenizer", "wp", "--split-sentences", "--output", "told"});
  stoa_ok(
      train("encoder", {"model.tokenizer=wp", "model.kind=bert", "model.data=told", "trainer.max_steps=3"}));
  write_text(path("lines.txt"), "the stone walks\nbread\n");
  std::istringstream lines(
      stoa_ok({"embed", "encoder", "lines.txt", "--json", "--threads", "1", "--dtype", "fp32"}).out);
  std::vector<json> expected;
  for (std::string line; std::getline(lines, line);) expected.push_back(json::parse(line)["embedding"]);
  ASSERT_EQ(expected.size(), 2u);

  serve({"encoder"});
  const json texts = json::array({"the stone walks", "bread"});
  const json answer =
      ask("/v1/embeddings", {{"model", "encoder"}, {"input", texts}, {"encoding_format", "float"}});
  ASSERT_EQ(answer["data"].size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(answer["data"][i]["index"], i);
    EXPECT_EQ(answer["data"][i]["embedding"], expected[i]);
  }
  EXPECT_GT(answer["usage"]["total_tokens"], 4);
  const json packed =
      ask("/v1/embeddings", {{"model", "encoder"}, {"input", "bread"}, {"encoding_format", "base64"}});
  EXPECT_EQ(packed["data"][0]["embedding"].get<std::string>().size(), (32 * 4 + 2) / 3 * 4u);
  double cosine = 0;
  for (std::size_t i = 0; i < 32; ++i) cosine += expected[0][i].get<double>() * expected[1][i].get<double>();
  const json score = ask("/score", {{"model", "encoder"}, {"text_1", "the stone walks"}, {"text_2", texts}});
  EXPECT_NEAR(score["data"][0]["score"], 1, 1e-5);
  EXPECT_NEAR(score["data"][1]["score"], cosine, 1e-5);
  const json ranked =
      ask("/v1/rerank", {{"model", "encoder"}, {"query", "bread"}, {"documents", texts}, {"top_n", 1}});
  ASSERT_EQ(ranked["results"].size(), 1u);
  EXPECT_EQ(ranked["results"][0]["index"], 1);
  EXPECT_EQ(ranked["results"][0]["document"]["text"], "bread");
  EXPECT_EQ(post("/v1/completions", {{"model", "encoder"}, {"prompt", "a"}}).status, 400);
}

TEST_F(ServeModels, GuessesChangeNoAnswerAndAreCounted) {
  const json request{{"model", "chat"},
                     {"prompt", "the stone walks by the river the stone walks by the river"},
                     {"max_tokens", 40},
                     {"seed", 4},
                     {"n", 3},
                     {"temperature", 0},
                     {"logprobs", 1}};
  serve();
  const json plain = ask("/v1/completions", request)["choices"];
  EXPECT_EQ(metric("vllm:spec_decode_num_draft_tokens_total"), 0);
  for (const Arguments& guesses : {Arguments{"--prompt-lookup"}, {"--draft", "chat"}}) {
    serve(guesses);
    EXPECT_EQ(ask("/v1/completions", request)["choices"], plain) << joined(guesses);
    expect_idle();
    const double drafts = metric("vllm:spec_decode_num_drafts_total"),
                 guessed = metric("vllm:spec_decode_num_draft_tokens_total"),
                 accepted = metric("vllm:spec_decode_num_accepted_tokens_total");
    EXPECT_GT(drafts, 0) << joined(guesses);
    EXPECT_GE(guessed, drafts);
    EXPECT_LE(accepted, guessed);
    if (guesses[0] == "--draft") {  // the model itself is always right
      EXPECT_EQ(accepted, guessed);
    }
  }
}

TEST_F(ServeModels, ToolsAreRenderedByTheTemplate) {
  serve();
  json request{{"messages", json::array({{{"role", "user"}, {"content", "the stone"}}})},
               {"max_tokens", 3},
               {"temperature", 0}};
  const json plain = ask("/v1/chat/completions", request);
  request["tools"] = json::array(
      {{{"type", "function"}, {"function", {{"name", "find"}, {"parameters", {{"type", "object"}}}}}}});
  const json with = ask("/v1/chat/completions", request);
  EXPECT_GT(with["usage"]["prompt_tokens"], plain["usage"]["prompt_tokens"]);
  request["tool_choice"] = "none";
  EXPECT_EQ(ask("/v1/chat/completions", request)["usage"]["prompt_tokens"], plain["usage"]["prompt_tokens"]);
}

TEST_F(ServeModels, ARunIsFollowed) {
  stoa_ok(train("run", {"trainer.max_steps=6", "--stop-after", "2"}));
  serve({"--follow", "run"});
  const json question{
      {"model", "run"}, {"prompt", "the stone"}, {"max_tokens", 2}, {"temperature", 0}, {"logprobs", 1}};
  const json before = ask("/v1/completions", question);
  EXPECT_EQ(get("/v1/models").json()["data"].size(), 2u);
  stoa_ok(train("run", {"trainer.max_steps=6"}));
  const json other = ask("/v1/completions", {{"prompt", "the stone"}, {"max_tokens", 2}});
  EXPECT_EQ(other["model"], "chat");
  EXPECT_TRUE(server().wait_until([&] {
    return server().errors().find("step-0000006 is served now") != std::string::npos;
  })) << server().errors();
  const json after = ask("/v1/completions", question);
  EXPECT_NE(after["choices"][0]["logprobs"], before["choices"][0]["logprobs"]);
  EXPECT_GE(metric("vllm:generation_tokens_total{model_name=\"run\"}"), 4);
}

}  // namespace
}  // namespace stoa::e2e
