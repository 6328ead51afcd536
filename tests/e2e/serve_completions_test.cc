// The answers of `stoa serve`: equal to those of `stoa generate` and `stoa score`, whole and streamed.
#include <gmock/gmock.h>

#include <cmath>
#include <set>
#include <thread>

#include "base/file.h"
#include "served.h"

namespace stoa::e2e {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ServeCompletions : public Served {
 protected:
  json generated(const std::string& prompt, int tokens) const {
    return json_of({"generate", "chat", "--prompt", prompt, "--greedy", "--max-tokens",
                    std::to_string(tokens), "--json", "--threads", "1", "--dtype", "fp32"});
  }
};

TEST_F(ServeCompletions, EqualGenerateWholeAndStreamed) {
  serve();
  const json expected = generated("the stone", 40);
  const json request{{"model", "chat"}, {"prompt", "the stone"}, {"max_tokens", 40}, {"temperature", 0}};
  const json answer = ask("/v1/completions", request);
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_EQ(answer["choices"][0]["text"], expected["text"]);
  EXPECT_EQ(answer["choices"][0]["logprobs"], nullptr);
  const bool full = expected["end"] == "length";
  EXPECT_EQ(answer["choices"][0]["finish_reason"], full ? "length" : "stop");
  EXPECT_EQ(answer["usage"]["prompt_tokens"], expected["prompt_ids"].size());
  EXPECT_EQ(answer["usage"]["completion_tokens"], expected["ids"].size());
  EXPECT_EQ(ask("/v1/completions", request)["choices"], answer["choices"]);

  json streamed = request;
  streamed["stream"] = true;
  streamed["stream_options"] = {{"include_usage", true}};
  const HttpAnswer stream = post("/v1/completions", streamed);
  EXPECT_EQ(stream.status, 200);
  EXPECT_THAT(stream.headers.at("content-type"), HasSubstr("text/event-stream"));
  EXPECT_TRUE(stream.body.ends_with("data: [DONE]\n\n"));
  std::string text;
  int ends = 0;
  const auto events = stream.events();
  for (const json& event : events) {
    EXPECT_EQ(event["id"], events[0]["id"]);
    if (event["choices"].empty()) {
      EXPECT_EQ(event["usage"]["completion_tokens"], answer["usage"]["completion_tokens"]);
      EXPECT_EQ(event["usage"]["prompt_tokens"], answer["usage"]["prompt_tokens"]);
      continue;
    }
    EXPECT_EQ(event["usage"], nullptr);
    text += event["choices"][0]["text"].get<std::string>();
    ends += event["choices"][0]["finish_reason"].is_string();
  }
  EXPECT_EQ(text, expected["text"]);
  EXPECT_EQ(ends, 1);
  EXPECT_TRUE(events.back()["choices"].empty());
}

TEST_F(ServeCompletions, LogProbabilitiesOfTheModelAndOfWhatIsDrawnFrom) {
  serve();
  json question{{"messages", json::array({{{"role", "user"}, {"content", "the stone"}}})},
                {"max_tokens", 6},
                {"temperature", 0.5},
                {"top_k", 2},
                {"seed", 3},
                {"logprobs", true},
                {"top_logprobs", 3}};
  const auto scores = [&] {
    return ask("/v1/chat/completions", question)["choices"][0]["logprobs"]["content"];
  };
  const json raw = scores();
  question["logprobs_mode"] = "processed_logprobs";
  const json processed = scores();
  ASSERT_EQ(processed.size(), raw.size());
  const auto at = [](const json& score, int i) { return score["top_logprobs"][i]["logprob"].get<double>(); };
  for (std::size_t i = 0; i < raw.size(); ++i) {
    EXPECT_EQ(processed[i]["token"], raw[i]["token"]);
    EXPECT_EQ(raw[i]["top_logprobs"].size(), 3u);
    ASSERT_EQ(processed[i]["top_logprobs"].size(), 2u);  // what top_k leaves
    EXPECT_NEAR(std::exp(at(processed[i], 0)) + std::exp(at(processed[i], 1)), 1, 1e-5);
    EXPECT_NEAR(at(processed[i], 0) - at(processed[i], 1), (at(raw[i], 0) - at(raw[i], 1)) / 0.5, 1e-4);
  }
  // Cuts of other programs: with XTC, the likelier of two top choices never comes.
  question["xtc_probability"] = 1;
  question["xtc_threshold"] = 0;
  for (const json& score : scores()) EXPECT_EQ(score["top_logprobs"].size(), 1u) << score;
  question["typical_p"] = 2;
  EXPECT_EQ(post("/v1/chat/completions", question).json()["error"]["param"], "typical_p");
  question.erase("typical_p");
  question["logprobs_mode"] = "processed_logits";
  EXPECT_EQ(post("/v1/chat/completions", question).json()["error"]["param"], "logprobs_mode");
  // As llama-server has them.
  const json whole = ask("/completion", {{"prompt", "the stone"},
                                         {"n_predict", 3},
                                         {"top_k", 1},
                                         {"n_probs", 2},
                                         {"post_sampling_probs", true}});
  for (const json& score : whole["completion_probabilities"]) {
    EXPECT_EQ(score["prob"], 1) << score;
    EXPECT_EQ(score["top_probs"].size(), 1u) << score;
    EXPECT_FALSE(score.contains("logprob")) << score;
  }
}

TEST_F(ServeCompletions, EchoScoresThePromptAsScoreDoes) {
  serve();
  write_text(path("one-line.txt"), "the stone walks over bread and sleeps\n");
  const json scored = json_of({"score", "chat", "--threads", "1", "--dtype", "fp32", "one-line.txt"});
  const json ids = scored["ids"];
  // Rows of other lengths in the same request change nothing.
  const json answer = ask("/v1/completions", {{"prompt", {ids, json::array({ids[0], ids[1]})}},
                                              {"max_tokens", 1},
                                              {"temperature", 0},
                                              {"logprobs", 3},
                                              {"echo", true}});
  ASSERT_EQ(answer["choices"].size(), 2u);
  const json& scores = answer["choices"][0]["logprobs"];
  for (const char* key : {"tokens", "token_logprobs", "top_logprobs", "text_offset"})
    ASSERT_EQ(scores[key].size(), ids.size() + 1) << key;
  EXPECT_EQ(answer["choices"][1]["logprobs"]["tokens"].size(), 3u);
  EXPECT_EQ(answer["choices"][1]["index"], 1);
  EXPECT_EQ(scores["token_logprobs"][0], nullptr);
  EXPECT_EQ(scores["top_logprobs"][0], nullptr);
  std::string text;
  for (std::size_t i = 1; i <= ids.size(); ++i) {
    const double p = scores["token_logprobs"][i];
    const json& top = scores["top_logprobs"][i];
    double highest = -1e9;
    for (const auto& [name, value] : top.items()) highest = std::max(highest, value.get<double>());
    EXPECT_GE(top.size(), 3u);
    EXPECT_LE(p, highest);
    EXPECT_EQ(top[scores["tokens"][i].get<std::string>()], p);
    if (i == ids.size()) continue;
    EXPECT_NEAR(p, scored["logprobs"][i].get<double>(), 2e-5) << i;
  }
  // Nothing generated: the same numbers, one entry less.
  const json only =
      ask("/v1/completions", {{"prompt", ids}, {"max_tokens", 0}, {"logprobs", 3}, {"echo", true}});
  json without = scores["token_logprobs"];
  without.erase(without.size() - 1);
  EXPECT_EQ(only["choices"][0]["logprobs"]["token_logprobs"], without);
  EXPECT_EQ(only["usage"]["completion_tokens"], 0);
}

TEST_F(ServeCompletions, ChoicesSeedsBiasesStopsAndLengths) {
  serve();
  json request{
      {"prompt", {"the stone", "bread"}}, {"max_tokens", 12}, {"seed", 7}, {"n", 3}, {"temperature", 1.5}};
  const json first = ask("/v1/completions", request), again = ask("/v1/completions", request);
  ASSERT_EQ(first["choices"].size(), 6u);
  EXPECT_EQ(first["choices"], again["choices"]);
  std::set<std::string> texts;
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(first["choices"][i]["index"], i);
    texts.insert(first["choices"][i]["text"].get<std::string>());
  }
  EXPECT_GT(texts.size(), 3u);
  request["seed"] = 8;
  EXPECT_NE(ask("/v1/completions", request)["choices"], first["choices"]);

  const json whole = ask("/v1/completions",
                         {{"prompt", "the"}, {"max_tokens", 30}, {"temperature", 0}, {"ignore_eos", true}});
  const std::string text = whole["choices"][0]["text"];
  ASSERT_GT(text.size(), 12u);
  const std::string stop = text.substr(8, 3);
  const json stopped = ask("/v1/completions", {{"prompt", "the"},
                                               {"max_tokens", 30},
                                               {"temperature", 0},
                                               {"ignore_eos", true},
                                               {"stop", {stop, "\x01never"}}});
  EXPECT_EQ(stopped["choices"][0]["text"], text.substr(0, text.find(stop)));
  EXPECT_EQ(stopped["choices"][0]["finish_reason"], "stop");

  const json ids = ask("/tokenize", {{"prompt", "e"}, {"add_special_tokens", false}})["tokens"];
  const json biased = ask("/v1/completions", {{"prompt", "the"},
                                              {"max_tokens", 5},
                                              {"temperature", 0},
                                              {"logit_bias", {{std::to_string(ids[0].get<int>()), 100}}}});
  EXPECT_EQ(biased["choices"][0]["text"], "eeeee");
  const json ended = ask("/v1/completions", {{"prompt", "the"},
                                             {"max_tokens", 5},
                                             {"temperature", 0},
                                             {"logit_bias", {{std::to_string(ids[0].get<int>()), 100}}},
                                             {"stop_token_ids", ids}});
  EXPECT_EQ(ended["choices"][0]["text"], "");
  EXPECT_EQ(ended["choices"][0]["finish_reason"], "stop");
  const json later = ask("/v1/completions", {{"prompt", "the"},
                                             {"max_tokens", 9},
                                             {"temperature", 0},
                                             {"logit_bias", {{std::to_string(ids[0].get<int>()), 100}}},
                                             {"stop_token_ids", ids},
                                             {"min_tokens", 4}});
  EXPECT_EQ(later["usage"]["completion_tokens"], 4);
}

TEST_F(ServeCompletions, ChatRendersTheTemplate) {
  serve();
  const json messages{
      {{"role", "developer"}, {"content", "walks"}},
      {{"role", "user"},
       {"content", {{{"type", "text"}, {"text", "the "}}, {{"type", "text"}, {"text", "stone"}}}}}};
  const json chat = ask("/v1/chat/completions", {{"messages", messages},
                                                 {"temperature", 0},
                                                 {"max_completion_tokens", 20},
                                                 {"logprobs", true},
                                                 {"top_logprobs", 2}});
  const json plain = ask("/v1/completions", {{"prompt", "<system> walks\n<user> the stone\n<assistant> "},
                                             {"temperature", 0},
                                             {"max_tokens", 20},
                                             {"add_special_tokens", false},
                                             {"logprobs", 2}});
  EXPECT_EQ(chat["object"], "chat.completion");
  const json& choice = chat["choices"][0];
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(choice["message"]["content"], plain["choices"][0]["text"]);
  EXPECT_EQ(chat["usage"]["prompt_tokens"], plain["usage"]["prompt_tokens"]);
  ASSERT_EQ(choice["logprobs"]["content"].size(), 20u);
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(choice["logprobs"]["content"][i]["logprob"],
              plain["choices"][0]["logprobs"]["token_logprobs"][i]);
    EXPECT_EQ(choice["logprobs"]["content"][i]["top_logprobs"].size(), 2u);
  }
  const HttpAnswer stream =
      post("/v1/chat/completions",
           {{"messages", messages}, {"temperature", 0}, {"max_tokens", 20}, {"stream", true}, {"n", 2}});
  const auto events = stream.events();
  std::string texts[2];
  EXPECT_EQ(events[0]["choices"][0]["delta"], (json{{"role", "assistant"}, {"content", ""}}));
  for (const json& event : events) {
    const json& delta = event["choices"][0]["delta"];
    if (delta.contains("content"))
      texts[event["choices"][0]["index"].get<int>()] += delta["content"].get<std::string>();
  }
  EXPECT_EQ(texts[0], choice["message"]["content"]);
  EXPECT_EQ(texts[1], choice["message"]["content"]);
  EXPECT_EQ(events.back()["choices"][0]["delta"], json::object());
  EXPECT_EQ(events.back()["choices"][0]["finish_reason"], "length");

  const json message =
      ask("/v1/messages", {{"model", "chat"},
                           {"system", "walks"},
                           {"max_tokens", 20},
                           {"temperature", 0},
                           {"messages", json::array({{{"role", "user"}, {"content", "the stone"}}})}});
  EXPECT_EQ(message["content"][0]["text"], choice["message"]["content"]);
  EXPECT_EQ(message["stop_reason"], "max_tokens");
  EXPECT_EQ(message["usage"]["output_tokens"], 20);
}

TEST_F(ServeCompletions, OlderForms) {
  serve();
  const json expected = generated("the stone", 10);
  HttpConnection connection(port());
  connection.send(http_request("PUT", "/generate",
                               json{{"sentences", json::array({"the stone"})},
                                    {"tokens_to_generate", 10},
                                    {"greedy", true},
                                    {"compute_logprob", true}}
                                   .dump()));
  const json nemo = connection.read().json();
  EXPECT_EQ(nemo["sentences"][0], "the stone" + expected["text"].get<std::string>());
  EXPECT_EQ(nemo["token_ids"][0].size(), expected["prompt_ids"].size() + expected["ids"].size());
  EXPECT_EQ(nemo["logprob"][0].size() + 1, nemo["token_ids"][0].size());
  connection.send(http_request("PUT", "/api",
                               json{{"prompts", json::array({"the stone"})},
                                    {"tokens_to_generate", 10},
                                    {"top_k", 1},
                                    {"logprobs", true}}
                                   .dump()));
  const json megatron = connection.read().json();
  EXPECT_EQ(megatron["text"][0], nemo["sentences"][0]);
  EXPECT_EQ(megatron["logprobs"], nemo["logprob"]);
  const json ids = ask("/tokenize", {{"prompt", "the stone"}});
  EXPECT_EQ(ids["tokens"], expected["prompt_ids"]);
  EXPECT_EQ(ask("/detokenize", {{"tokens", ids["tokens"]}})["prompt"], "the stone");
}

// Answers, log-probabilities and draws of clients that ask together are those of one that asks alone.
TEST_F(ServeCompletions, ManyClientsGetTheAnswersOfOne) {
  serve();
  std::vector<json> requests;
  for (int i = 0; i < 12; ++i)
    requests.push_back(
        {{"model", "chat"},
         {"prompt", i % 3 == 0 ? "the stone" : std::string(static_cast<std::size_t>(3 + 4 * i), 'a')},
         {"max_tokens", 10 + i},
         {"seed", i},
         {"temperature", i % 2},
         {"logprobs", 3},
         {"n", 1 + i % 2}});
  std::vector<json> alone, together(requests.size());
  for (const json& request : requests) alone.push_back(ask("/v1/completions", request)["choices"]);
  std::vector<std::thread> clients;
  for (std::size_t i = 0; i < requests.size(); ++i)
    clients.emplace_back([&, i] { together[i] = ask("/v1/completions", requests[i])["choices"]; });
  for (std::thread& client : clients) client.join();
  for (std::size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(together[i], alone[i]) << "client " << i;
}

// At temperature 100 all tokens are nearly equal: min-p 0.995 leaves some of them, at temperature 1 the best.
TEST_F(ServeCompletions, OrdersOfSamplers) {
  serve();
  json request{{"prompt", "the stone"}, {"max_tokens", 20}, {"temperature", 0}};
  const std::string best = ask("/v1/completions", request)["choices"][0]["text"];
  request.update({{"temperature", 100}, {"min_p", 0.995}, {"seed", 1}});
  EXPECT_NE(ask("/v1/completions", request)["choices"][0]["text"], best);
  request["sampler_order"] = "llama.cpp";
  EXPECT_EQ(ask("/v1/completions", request)["choices"][0]["text"], best);
  request["sampler_order"] = "ggml";
  const HttpAnswer refused = post("/v1/completions", request);
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.json()["error"]["param"], "sampler_order");
  const Arguments hot{"generate", "chat",          "--prompt", "the stone", "--max-tokens",
                      "20",       "--temperature", "100",      "--min-p",   "0.995",
                      "--json",   "--threads",     "1",        "--dtype",   "fp32"};
  EXPECT_NE(json_of(hot)["text"], best);
  EXPECT_EQ(json_of(hot + Arguments{"--sampler-order", "llama.cpp"})["text"], best);
}

}  // namespace
}  // namespace stoa::e2e
