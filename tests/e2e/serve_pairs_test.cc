// Encoder-decoders behind `stoa serve`: the prompt is the source, the answer the target that `stoa generate`
// gives, alone and next to others.
#include <gmock/gmock.h>

#include <set>
#include <thread>

#include "base/file.h"
#include "base/test_paths.h"
#include "launched.h"
#include "served.h"

namespace stoa::e2e {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ServePairs : public Served {
 protected:
  void SetUp() override {
    Served::SetUp();
    stoa_ok({"tokenizer", "train", "text.jsonl", "--kind", "unigram", "--vocab-size", "60", "--sentinels",
             "20", "--output", "pieces"});
    stoa_ok({"data", "prepare", "text.jsonl", "--tokenizer", "pieces", "--output", "pairs"});
    stoa_ok(train("run", {"model.data=pairs", "model.tokenizer=pieces", "model.kind=t5", "model.bias=none",
                          "model.position_embedding_type=relative", "model.normalization=rmsnorm",
                          "model.activation=geglu_tanh", "model.share_embeddings_and_output_weights=false",
                          "model.t5.seq_length_dec=16", "trainer.max_steps=12", "model.optim.lr=0.01"}));
    stoa_ok({"checkpoint", "export", "run", "--dtype", "fp32", "--output", "t5"});
  }
  json generated(const std::string& prompt, const Arguments& more) const {
    return json_of(Arguments{"generate", "t5", "--prompt", prompt, "--max-tokens", "12", "--json",
                             "--threads", "1", "--dtype", "fp32"} +
                   more);
  }
  void expect_refused(const std::string& path, const json& body, const char* text) const {
    const HttpAnswer answer = post(path, body);
    EXPECT_EQ(answer.status, 400) << answer.body;
    EXPECT_THAT(answer.body, HasSubstr(text));
  }
};

const std::string kSource = "the stone walks by the <extra_id_0>";

TEST_F(ServePairs, AnswersSourcesAsGenerateDoes) {
  serve({"t5"});
  const json expected = generated(kSource, {"--greedy"});
  json request{{"model", "t5"},
               {"prompt", kSource},
               {"max_tokens", 12},
               {"temperature", 0},
               {"skip_special_tokens", false}};
  const json answer = ask("/v1/completions", request);
  EXPECT_EQ(answer["choices"][0]["text"], expected["text"]);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], expected["prompt_ids"].size());
  EXPECT_EQ(answer["usage"]["completion_tokens"], expected["ids"].size());
  EXPECT_EQ(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  const json again = ask("/v1/completions", request);
  EXPECT_EQ(again["choices"], answer["choices"]);
  EXPECT_EQ(again["usage"]["prompt_tokens_details"]["cached_tokens"], expected["prompt_ids"].size());
  request["prompt"] = expected["prompt_ids"];
  EXPECT_EQ(ask("/v1/completions", request)["choices"], answer["choices"]);

  request["stream"] = true;
  std::string text;
  for (const json& event : post("/v1/completions", request).events())
    text += event["choices"][0]["text"].get<std::string>();
  EXPECT_EQ(text, expected["text"]);

  // Drawn, several at once, with log-probabilities of the target alone.
  const json drawn = generated(kSource, {"--seed", "5"});
  const json several = ask("/v1/completions", {{"model", "t5"},
                                               {"prompt", {kSource, "the <extra_id_0> sleeps"}},
                                               {"max_tokens", 12},
                                               {"seed", 5},
                                               {"skip_special_tokens", false},
                                               {"n", 3},
                                               {"logprobs", 2}});
  ASSERT_EQ(several["choices"].size(), 6u);
  EXPECT_EQ(several["choices"][0]["text"], drawn["text"]);
  const json& scores = several["choices"][0]["logprobs"];
  EXPECT_EQ(scores["tokens"].size(), drawn["ids"].size());
  EXPECT_EQ(scores["text_offset"][0], 0);
  std::string line;
  for (const char* key : {"prompt_ids", "ids"}) {
    for (const auto& id : drawn[key]) line += std::to_string(id.get<int>()) + " ";
    line += std::string(key) == "ids" ? "\n" : "\t";
  }
  write_text(path("pair.txt"), line);
  const json rated = json_of({"score", "t5", "pair.txt", "--ids", "--threads", "1", "--dtype", "fp32"});
  for (std::size_t i = 0; i < drawn["ids"].size(); ++i)
    EXPECT_NEAR(scores["token_logprobs"][i].get<double>(), rated["logprobs"][i].get<double>(), 2e-5) << i;
  expect_idle();
}

TEST_F(ServePairs, AnswersManyAtOnceAsAlone) {
  serve({"t5", "--kv-memory-gb", "0.0004"});
  std::vector<json> alone(24), together(24);
  const auto request = [](std::size_t i) {
    std::string source;
    for (std::size_t w = 0; w <= i % 9; ++w) source += i % 2 ? "the stone walks " : "bread sleeps ";
    return json{{"model", "t5"},
                {"prompt", source + "<extra_id_0>"},
                {"max_tokens", 40},
                {"seed", i},
                {"ignore_eos", true}};
  };
  for (std::size_t i = 0; i < alone.size(); ++i) alone[i] = ask("/v1/completions", request(i))["choices"];
  std::vector<std::thread> clients;
  for (std::size_t i = 0; i < together.size(); ++i)
    clients.emplace_back([&, i] { together[i] = ask("/v1/completions", request(i))["choices"]; });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(together, alone);
  expect_idle();
}

// Over ranks: threads and processes, targets drawn, searched and measured; virtual tokens, too.
TEST_F(ServePairs, RanksAnswerAsOne) {
  write_text(path("sources.txt"), kSource + "\nthe <extra_id_0> sleeps\n<extra_id_0>\n");
  write_text(path("rated.txt"), "the stone walks\tby the river\nbread\tsleeps\n");
  const auto out_of = [&](const Arguments& command, const Arguments& ranks) {
    return stoa_ok(command + Arguments{"--threads", "1", "--dtype", "fp32"} + ranks).out;
  };
  const Arguments one_source{"generate", "t5", "--prompt", kSource, "--greedy", "--max-tokens", "12"},
      many{"generate", "t5", "--prompts", "sources.txt", "--seed", "3", "--max-tokens", "12"},
      beams{"generate", "t5", "--prompts", "sources.txt", "--beams", "3", "--max-tokens", "12"},
      score{"score", "t5", "rated.txt"}, whole{"eval", "perplexity", "t5", "--text", "rated.txt"};
  stoa_ok(train("tuned", {"model.data=pairs", "model.tokenizer=pieces", "model.kind=t5", "model.bias=none",
                          "model.position_embedding_type=relative", "model.normalization=rmsnorm",
                          "model.activation=geglu_tanh", "model.share_embeddings_and_output_weights=false",
                          "model.t5.seq_length_dec=16", "trainer.max_steps=4", "restore_from_path=run",
                          "model.peft.peft_scheme=ptuning", "model.peft.p_tuning.virtual_tokens=3",
                          "model.optim.lr=0.05"}));
  const Arguments tuned = score + Arguments{"--adapter", "tuned"};
  EXPECT_NE(out_of(tuned, {}), out_of(score, {}));
  const auto without_rate = [](const std::string& text) { return text.substr(0, text.find("tokens read")); };
  for (const Arguments& command : {one_source, many, beams, score, tuned, whole}) {
    const std::string one = without_rate(out_of(command, {}));
    for (const Arguments& ranks : {Arguments{"--tp", "2", "--exact-sum"}, Arguments{"--pp", "2"}})
      EXPECT_EQ(without_rate(out_of(command, ranks)), one) << joined(command + ranks);
  }
  EXPECT_EQ(out_of(one_source, {"--tp", "2"}), out_of(one_source, {}));
  // An interrupted file of answers goes on with other ranks that give the same bits.
  stoa_ok(many + Arguments{"--output", "answers.jsonl", "--pp", "2"});
  EXPECT_NE(stoa(many + Arguments{"--output", "answers.jsonl", "--kv-dtype", "bf16"}).exit_code, 0);

  const std::string expected = out_of(one_source, {}), at = free_port();
  const auto start = [&](int rank) {
    ProgramOptions options;
    options.directory = directory();
    options.program = "/usr/bin/env";
    return std::make_unique<Program>(variables_of(rank, 2, at) + Arguments{test::program().string()} +
                                         one_source +
                                         Arguments{"--threads", "1", "--dtype", "fp32", "--tp", "2"},
                                     options);
  };
  const auto first = start(0), second = start(1);
  const Outcome told = first->wait(), silent = second->wait();
  EXPECT_EQ(told.exit_code, 0) << told.text();
  EXPECT_EQ(silent.exit_code, 0) << silent.text();
  EXPECT_EQ(told.out + silent.out, expected);

  const auto served = [&](const Arguments& ranks) {
    serve_model("t5", Arguments{"--adapter", "tuned=tuned"} + ranks);
    std::string out;
    for (const char* name : {"t5", "tuned"})
      out += ask("/v1/completions", {{"model", name},
                                     {"prompt", kSource},
                                     {"max_tokens", 12},
                                     {"temperature", 0},
                                     {"logprobs", 1}})["choices"][0]["logprobs"]
                 .dump();
    server().signal(SIGTERM);
    const Outcome end = server().wait();
    EXPECT_EQ(end.exit_code, 0) << end.text();
    return out;
  };
  const std::string one = served({});
  EXPECT_EQ(served({"--tp", "2", "--exact-sum"}), one);
  EXPECT_EQ(served({"--pp", "2"}), one);
}

TEST_F(ServePairs, SaysWhatDoesNotApply) {
  serve({"t5"});
  const auto with = [](const json& more) {
    json out{{"model", "t5"}, {"prompt", "the stone"}, {"max_tokens", 4}};
    out.update(more);
    return out;
  };
  expect_refused("/v1/completions", with({{"echo", true}}), "does not continue the prompt");
  expect_refused("/v1/completions", with({{"suffix", "x"}}),
                 "mark in the prompt of /v1/completions what is missing");
  const HttpAnswer infill = post("/infill", {{"model", "t5"}, {"input_prefix", "the stone"}});
  EXPECT_EQ(infill.status, 400);
  EXPECT_EQ(infill.json()["error"]["param"], "model");
  expect_refused("/v1/completions", with({{"max_tokens", 100000}}), "writes answers of");
  expect_refused("/v1/chat/completions",
                 {{"model", "t5"}, {"messages", {{{"role", "user"}, {"content", "hi"}}}}},
                 "no chat template");
  expect_refused("/v1/embeddings", {{"model", "t5"}, {"input", "a"}}, "no encoder");
  const json constrained =
      ask("/v1/completions", with({{"guided_choice", {"the road", "bread"}}, {"max_tokens", 20}}));
  const std::string text = constrained["choices"][0]["text"];
  EXPECT_TRUE(text == "the road" || text == "bread") << text;
  const json ids = ask("/tokenize", {{"model", "t5"}, {"prompt", "the stone"}})["tokens"];
  EXPECT_EQ(ids, generated("the stone", {"--greedy"})["prompt_ids"]);
  EXPECT_EQ(ask("/v1/completions", with({{"max_tokens", 1}}))["usage"]["prompt_tokens"], ids.size());
  const auto says = [&](const Arguments& command, const char* words) {
    const Outcome outcome = stoa(command);
    EXPECT_NE(outcome.exit_code, 0) << outcome.text();
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.text();
  };
  says({"serve", "t5", "--port", "0", "--prompt-lookup"}, "this is an encoder-decoder");
  says({"serve", "t5", "--port", "0", "--kv-memory-gb", "0.000005"}, "two blocks");
}

}  // namespace
}  // namespace stoa::e2e
