// Other models than one that answers: encoders, calls of tools, a run that is still trained.
#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.h"
#include "served.h"

namespace stoa::e2e {
namespace {

using nlohmann::json;
using ::testing::AllOf, ::testing::HasSubstr, ::testing::Not;

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

  // Requests of many texts, more than there are threads for requests, hold up neither answers nor each other,
  // and change no bit.
  json many = json::array();
  for (int i = 0; i < 2048; ++i) many.push_back(i % 2 == 0 ? "the stone walks" : "bread");
  std::atomic<int> ended{0};
  std::vector<json> vectors(4);
  std::vector<std::thread> clients;
  for (json& got : vectors)
    clients.emplace_back([&] {
      got = ask("/v1/embeddings", {{"model", "encoder"}, {"input", many}})["data"];
      ++ended;
    });
  while (metric("vllm:num_requests_running{model_name=\"encoder\"}") < 4 && ended == 0) continue;
  ask("/v1/completions", {{"model", "chat"}, {"prompt", "a"}, {"max_tokens", 1}});
  EXPECT_EQ(ask("/v1/embeddings", {{"model", "encoder"}, {"input", "bread"}})["data"][0]["embedding"],
            expected[1]);
  EXPECT_EQ(ended, 0);
  for (std::thread& client : clients) client.join();
  for (const json& got : vectors)
    for (std::size_t i = 0; i < many.size(); ++i) ASSERT_EQ(got[i]["embedding"], expected[i % 2]);

  // Options that mean nothing to an encoder are refused where it is alone, and told where it is not.
  const Outcome alone = stoa({"serve", "encoder", "--port", "0", "--kv-dtype", "bf16", "--stored-weights"});
  EXPECT_EQ(alone.exit_code, 1) << alone.text();
  EXPECT_THAT(alone.err,
              HasSubstr("encoder: --kv-dtype, --stored-weights are for models that continue a text"));
  serve({"encoder", "--kv-dtype", "bf16"});
  EXPECT_THAT(server().errors(), HasSubstr("encoder: --kv-dtype has no effect on an encoder"));
  EXPECT_THAT(server().errors(), Not(HasSubstr("chat: --kv-dtype")));
}

// The memory of keys and values is told when a model is loaded, and what is said to fit in it does.
TEST_F(ServeModels, ThePoolIsToldAndObeyed) {
  serve({"--kv-memory-gb", "0.01"});  // a token takes 2 layers x 2 x 32 numbers of 4 bytes
  EXPECT_THAT(server().errors(),
              HasSubstr("chat: 9.99 MB of keys and values in fp32: 19520 tokens; at once 2 texts of "
                        "8192 tokens, 9 of 2048\n"));
  EXPECT_THAT(get("/metrics").body,
              AllOf(HasSubstr("block_size=\"16\",cache_dtype=\"fp32\",num_gpu_blocks=\"1220\""),
                    HasSubstr("stoa:kv_cache_bytes{model_name=\"chat\"} 9994240")));
  EXPECT_EQ(get("/props").json()["kv_cache"],
            (json{{"dtype", "fp32"}, {"bytes", 9994240}, {"tokens", 19520}, {"texts_of_n_ctx", 2}}));
  serve({"--kv-memory-gb", "0.01", "--kv-dtype", "INT8"});
  EXPECT_THAT(server().errors(),
              HasSubstr("in int8: 69440 tokens; at once 8 texts of 8192 tokens, 32 of 2048\n"));
  serve({"--kv-memory-gb", "0.001"});
  EXPECT_THAT(server().errors(),
              HasSubstr("1952 tokens; at once 1 text of 1952 tokens; the model would read texts of "
                        "8192 tokens\n"));

  serve({"--kv-memory-gb", "0.0005", "--max-context", "256"});
  EXPECT_THAT(server().errors(), HasSubstr("976 tokens; at once 3 texts of 256 tokens\n"));
  const std::vector<int> prompt(200, 7);
  std::vector<std::jthread> clients;
  for (int i = 0; i < 3; ++i)
    clients.emplace_back([&, i] {
      std::vector<int> own = prompt;
      own.front() = 10 + i;
      ask("/v1/completions", {{"prompt", own}, {"max_tokens", 56}, {"ignore_eos", true}});
    });
  clients.clear();
  EXPECT_EQ(metric("vllm:num_preemptions_total"), 0);
}

// DoRA is computed with the numbers of the weights: the model beside it answers with them, too, and says so.
TEST_F(ServeModels, AnAdapterThatDecodesStoredWeightsIsTold) {
  stoa_ok({"checkpoint", "export", "chat", "--to", "gguf", "--format", "q8_0", "--output", "chat.gguf"});
  std::string pairs;
  for (int i = 0; i < 4; ++i) pairs += "{\"prompt\": \"the cat\", \"completion\": \"is in the river\"}\n";
  write_text(path("pairs.jsonl"), pairs);
  for (const char* method : {"lora", "dora"})
    stoa_ok({"finetune", "chat.gguf", "--data", "pairs.jsonl", "--template", "alpaca", "--method", method,
             "--epochs", "1", "--output", method});
  const auto answers = [&](const Arguments& more) {
    serve_model("base=chat.gguf", more);
    return ask("/v1/completions",
               {{"prompt", "the cat"}, {"max_tokens", 8}, {"temperature", 0}, {"logprobs", 1}})["choices"];
  };
  const json stored = answers({"--adapter", "l=lora"});
  EXPECT_THAT(server().errors(), Not(HasSubstr("DoRA")));
  EXPECT_EQ(answers({}), stored);
  const json decoded = answers({"--decoded-weights", "--kv-dtype", "fp16"});
  EXPECT_NE(decoded, stored);
  EXPECT_EQ(answers({"--adapter", "l=lora", "--adapter", "d=dora", "--kv-dtype", "fp16"}), decoded);
  EXPECT_THAT(server().errors(),
              HasSubstr("base: the DoRA adapter 'd' needs the weights as numbers: those of the "
                        "quantised file are decoded"));
  EXPECT_EQ(answers({"--decoded-weights", "--adapter", "d=dora", "--kv-dtype", "fp16"}), decoded);
  EXPECT_THAT(server().errors(), Not(HasSubstr("DoRA")));
}

TEST_F(ServeModels, GuessesChangeNoAnswerAndAreCounted) {
  const json request{
      {"model", "chat"},  {"prompt", "the stone walks by the river the stone walks by the river"},
      {"max_tokens", 40}, {"seed", 4},
      {"n", 3},           {"temperature", 0},
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

// Adapters of every kind beside the model itself, in one engine: what each answers is what it answers when
// it is served alone.
TEST_F(ServeModels, AdaptersAnswerTogetherAsAlone) {
  const std::vector<std::pair<std::string, Arguments>> kinds{
      {"lora", {"lora", "model.peft.lora_tuning.adapter_dim=4"}},
      {"dora", {"dora", "model.peft.lora_tuning.adapter_dim=2"}},
      {"ia3", {"ia3"}},
      {"prefix", {"prefix", "model.peft.p_tuning.virtual_tokens=5"}},
      {"prompt", {"prompt", "model.peft.p_tuning.virtual_tokens=3"}}};
  std::string chats;
  for (int i = 0; i < 8; ++i)
    chats += json{{"prompt", "who walks " + std::to_string(i)}, {"completion", "the river"}}.dump() + "\n";
  write_text(path("chats.jsonl"), chats);
  Arguments all;
  for (const auto& [name, arguments] : kinds) {
    stoa_ok(Arguments{"finetune", "chat", "--data", "chats.jsonl", "--template", "alpaca", "--output", name,
                      "trainer.precision=fp32", "trainer.num_threads=2", "model.optim.lr=0.05", "--epochs",
                      "2", "model.global_batch_size=4", "--method"} +
            arguments);
    all = all + Arguments{"--adapter", name + "=" + name};
  }
  std::vector<json> questions;
  for (int i = 0; i < 3; ++i)
    questions.push_back(
        {{"prompt", std::string("the stone walks by the river and the tree ").substr(0, 30 + 4 * i)},
         {"max_tokens", 12},
         {"seed", i},
         {"logprobs", 5},
         {"echo", true}});
  const auto answers_of = [&](const std::string& name) {
    std::vector<json> out;
    for (json question : questions) {
      question["model"] = name;
      out.push_back(ask("/v1/completions", question)["choices"]);
    }
    return out;
  };
  std::map<std::string, std::vector<json>> alone;
  for (const auto& [name, arguments] : kinds) {
    serve({"--adapter", name + "=" + name});
    alone[name] = answers_of(name);
    alone["chat"] = answers_of("chat");
  }
  for (const auto& [name, answers] : alone) EXPECT_EQ(answers == alone["chat"], name == "chat") << name;

  serve(all);
  const json models = get("/v1/models").json()["data"];
  ASSERT_EQ(models.size(), 6u);
  EXPECT_EQ(models[0]["parent"], nullptr);
  EXPECT_EQ(models[3]["id"], "ia3");
  EXPECT_EQ(models[3]["parent"], "chat");
  EXPECT_EQ(models[4]["max_model_len"], models[0]["max_model_len"].get<int>() - 5);
  std::map<std::string, std::vector<json>> together;
  std::vector<std::jthread> clients;
  std::mutex mutex;
  for (const auto& [name, answers] : alone)
    clients.emplace_back([&, client = name] {
      const auto own = answers_of(client);
      const std::lock_guard lock(mutex);
      together[client] = own;
    });
  clients.clear();
  EXPECT_EQ(together, alone);
  // What was read for one is nothing to another.
  EXPECT_EQ(answers_of("lora"), alone["lora"]);
  EXPECT_EQ(answers_of("chat"), alone["chat"]);
  EXPECT_GE(metric("vllm:generation_tokens_total{model_name=\"dora\"}"), 36);
  EXPECT_EQ(metric("vllm:num_requests_running{model_name=\"dora\"}"), 0);
  const HttpAnswer unknown = post("/v1/completions", {{"model", "lore"}, {"prompt", "a"}});
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(unknown.body, HasSubstr("lora"));
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
