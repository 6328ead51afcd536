// Models that several ranks share (--tp, --ep, --pp): the answers of one rank, over threads and processes,
// and ends that are told.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

#include "base/file.h"
#include "base/test_paths.h"
#include "launched.h"
#include "served.h"

namespace stoa::e2e {
namespace {

using ::testing::AllOf, ::testing::HasSubstr, ::testing::Not;

class SharedModels : public Served {
 protected:
  static Arguments generate(const Arguments& more = {}) {
    return Arguments{"generate", "chat",     "--prompt",  "the cat", "--max-tokens",
                     "40",       "--greedy", "--threads", "1"} +
           more;
  }
  // stoa as rank `rank` of `size` processes.
  std::unique_ptr<Program> start_rank(int rank, int size, const std::string& port, const Arguments& arguments,
                                      const fs::path& output = {}) const {
    ProgramOptions options;
    options.directory = directory();
    options.program = "/usr/bin/env";
    options.output = output;
    return std::make_unique<Program>(
        variables_of(rank, size, port) + Arguments{test::program().string()} + arguments, options);
  }
};

TEST_F(SharedModels, ThreadsWriteWhatOneRankWrites) {
  const std::string one = stoa_ok(generate()).out;
  EXPECT_GT(one.size(), 40u);
  for (const Arguments& ranks : {Arguments{"--tp", "2"}, Arguments{"--tp", "2", "--exact-sum"},
                                 Arguments{"--pp", "2"}, Arguments{"--tp", "2", "--pp", "2"}})
    EXPECT_EQ(stoa_ok(generate(ranks)).out, one) << joined(ranks);
  write_text(path("lines.txt"), "the cat\na dog\nthe sun and the sea\n");
  const auto many = [&](const Arguments& more) {
    return stoa_ok(Arguments{"generate", "chat", "--prompts", "lines.txt", "--max-tokens", "12", "--seed",
                             "7", "--threads", "1", "--json"} +
                   more)
        .out;
  };
  const auto score = [&](const Arguments& more) {
    return stoa_ok(Arguments{"score", "chat", "lines.txt", "--threads", "1"} + more).out;
  };
  const auto texts = [](const std::string& lines) {
    std::string out;
    for (std::size_t at = 0; (at = lines.find("\"text\":", at)) != std::string::npos; ++at)
      out += lines.substr(at, lines.find("\",", at) - at) + "\n";
    return out;
  };
  EXPECT_EQ(texts(many({"--tp", "2", "--exact-sum"})), texts(many({})));
  EXPECT_EQ(score({"--tp", "2", "--exact-sum"}), score({}));
  const auto loss = [&](const Arguments& more) {
    return json_of(
        Arguments{"eval", "perplexity", "chat", "--text", "lines.txt", "--threads", "1", "--json"} +
        more)["loss"];
  };
  EXPECT_EQ(loss({"--tp", "2", "--exact-sum"}), loss({}));
  EXPECT_EQ(loss({"--pp", "2"}), loss({}));
}

TEST_F(SharedModels, ProcessesWriteWhatOneRankWrites) {
  const std::string one = stoa_ok(generate()).out, port = free_port();
  const auto first = start_rank(0, 2, port, generate({"--tp", "2"})),
             second = start_rank(1, 2, port, generate({"--tp", "2"}));
  const Outcome told = first->wait(), silent = second->wait();
  EXPECT_EQ(told.exit_code, 0) << told.text();
  EXPECT_EQ(told.out, one);
  EXPECT_EQ(silent.exit_code, 0) << silent.text();
  EXPECT_EQ(silent.out, "");
}

TEST_F(SharedModels, AServerAnswersFromAllRanks) {
  const nlohmann::json question{{"prompt", "the cat"}, {"max_tokens", 20}, {"temperature", 0}};
  serve();
  const auto one = ask("/v1/completions", question)["choices"][0]["text"];
  server().signal(SIGTERM);
  EXPECT_EQ(server().wait().exit_code, 0);
  serve({"--tp", "2"});
  EXPECT_EQ(ask("/v1/completions", question)["choices"][0]["text"], one);
  server().signal(SIGINT);
  const Outcome end = server().wait();
  EXPECT_EQ(end.exit_code, 0) << end.text();
  EXPECT_THAT(end.err, Not(HasSubstr("ERROR")));
}

TEST_F(SharedModels, AdaptersAreShared) {
  std::string pairs;
  for (int i = 0; i < 8; ++i) pairs += "{\"prompt\": \"the cat\", \"completion\": \"is in the river\"}\n";
  write_text(path("pairs.jsonl"), pairs);
  const Arguments tune{"finetune", "chat", "--data", "pairs.jsonl", "--template", "alpaca"};
  stoa_ok(tune + Arguments{"--method", "lora", "--epochs", "3", "--output", "pirate"});
  write_text(path("lines.txt"), "the cat is in the sun\na dog and the sea\n");
  const Arguments score{"score", "chat", "lines.txt", "--threads", "1"};
  const std::string plain = stoa_ok(score).out;
  const Arguments adapted = score + Arguments{"--adapter", "pirate"};
  const std::string alone = stoa_ok(adapted).out;
  EXPECT_NE(alone, plain);
  EXPECT_EQ(stoa_ok(adapted + Arguments{"--tp", "2", "--exact-sum"}).out, alone);
  EXPECT_EQ(stoa_ok(adapted + Arguments{"--pp", "2"}).out, alone);
  const auto served = [&](const Arguments& ranks) {
    serve(Arguments{"--adapter", "pirate=pirate"} + ranks);
    std::string out;
    for (const char* name : {"chat", "pirate"})
      out += ask("/v1/completions", {{"model", name},
                                     {"prompt", "the cat"},
                                     {"max_tokens", 20},
                                     {"temperature", 0},
                                     {"logprobs", 1}})["choices"][0]["logprobs"]["token_logprobs"]
                 .dump() +
             "\n";
    server().signal(SIGTERM);
    EXPECT_EQ(server().wait().exit_code, 0);
    return out;
  };
  const std::string one = served({});
  EXPECT_EQ(served({"--tp", "2", "--exact-sum"}), one);
  EXPECT_EQ(served({"--pp", "2"}), one);
}

// Virtual tokens, rescalings, bottlenecks, layers trained in full: alone and beside each other.
TEST_F(SharedModels, AdaptersOfEveryKindAreShared) {
  std::string pairs;
  for (int i = 0; i < 8; ++i) pairs += "{\"prompt\": \"the cat\", \"completion\": \"is in the river\"}\n";
  write_text(path("pairs.jsonl"), pairs);
  write_text(path("lines.txt"), "the cat is in the sun\na dog and the sea\n");
  const auto tune = [&](const std::string& model, const std::string& method, const std::string& name,
                        const Arguments& more = {}) {
    stoa_ok(Arguments{"finetune", model, "--data", "pairs.jsonl", "--template", "alpaca", "--method", method,
                      "--epochs", "3", "model.optim.lr=0.05", "--output", name} +
            more);
  };
  const auto score = [&](const std::string& model, const Arguments& more) {
    return stoa_ok(Arguments{"score", model, "lines.txt", "--threads", "1"} + more).out;
  };
  Arguments adapters;
  const std::string plain = score("chat", {});
  for (const char* method : {"dora", "ia3", "prompt", "p-tuning", "prefix", "adapter", "saved"}) {
    SCOPED_TRACE(method);
    const bool saved = method == std::string("saved");
    tune("chat", saved ? "lora" : method, method,
         saved ? Arguments{"model.peft.modules_to_save=['embed_in']"} : Arguments{});
    adapters = adapters + Arguments{"--adapter", fmt::format("{0}={0}", method)};
    const Arguments own{"--adapter", method};
    const std::string alone = score("chat", own);
    EXPECT_NE(alone, plain);
    EXPECT_EQ(score("chat", own + Arguments{"--tp", "2", "--exact-sum"}), alone);
    EXPECT_EQ(score("chat", own + Arguments{"--pp", "2"}), alone);
  }
  const auto served = [&](const Arguments& ranks) {
    serve(adapters + ranks);
    std::string out;
    for (std::size_t i = 1; i < adapters.size(); i += 2) {
      const std::string name = adapters[i].substr(0, adapters[i].find('='));
      out += ask("/v1/completions", {{"model", name},
                                     {"prompt", "the cat"},
                                     {"max_tokens", 20},
                                     {"temperature", 0},
                                     {"logprobs", 1}})["choices"][0]["logprobs"]["token_logprobs"]
                 .dump() +
             "\n";
    }
    return out;
  };
  const std::string one = served({});
  EXPECT_EQ(served({"--tp", "2", "--exact-sum"}), one);
  EXPECT_EQ(served({"--pp", "2"}), one);

  stoa_ok(train("experts", {"model.num_moe_experts=4", "trainer.max_steps=4",
                            "model.position_embedding_type=rope", "model.max_position_embeddings=256"}));
  tune("experts", "lora", "of-experts");  // experts among the layers
  const Arguments own{"--adapter", "of-experts"};
  const std::string alone = score("experts", own);
  EXPECT_NE(alone, score("experts", {}));
  EXPECT_EQ(score("experts", own + Arguments{"--ep", "2", "--exact-sum"}), alone);
  EXPECT_EQ(score("experts", own + Arguments{"--tp", "2", "--exact-sum"}), alone);
}

TEST_F(SharedModels, ARankThatIsKilledIsNamed) {
  const std::string port = free_port();
  const Arguments arguments{"serve", "chat", "--port", "0", "--threads", "1", "--tp", "2"};
  write_text(path("said.txt"), "");
  const auto first = start_rank(0, 2, port, arguments, path("said.txt")),
             second = start_rank(1, 2, port, arguments);
  ASSERT_TRUE(first->wait_until([&] {
    return read_text(path("said.txt")).find("listening") != std::string::npos;
  })) << first->wait().text()
      << second->errors();
  second->signal(SIGKILL);
  const Outcome outcome = first->wait();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("ERROR rank 0@"), HasSubstr("the connection to rank 1@"),
                                 HasSubstr("was lost: its process is gone")));
}

TEST_F(SharedModels, AnErrorOfARankIsToldWithItsName) {
  const std::string file = "chat/model.safetensors";
  std::string weights = read_text(path(file));
  weights.replace(weights.size() - 4, 4, std::string("\0\0\xc0\x7f", 4));  // a number that is none
  write_text(path(file), weights);
  fs::remove(path("chat/stoa-checksums.json"));
  for (const char* ranks : {"--tp", "--pp"}) {
    const Outcome outcome = stoa(generate({ranks, "2"}));
    EXPECT_EQ(outcome.exit_code, 1) << outcome.text();
    EXPECT_THAT(outcome.err, AllOf(::testing::ContainsRegex("ERROR (rank 1: [^ ]*|)chat: tensor '"),
                                   HasSubstr("not a number")));
    EXPECT_EQ(outcome.out, "");
  }
}

// As without other ranks: its requests fail, the others are answered, and it is tried again.
TEST_F(SharedModels, AModelThatCannotBeReadFailsItsRequestsAlone) {
  fs::copy(path("chat"), path("other"), fs::copy_options::recursive);
  fs::remove(path("other/stoa-checksums.json"));
  const fs::path file = path("other/model.safetensors");
  const std::string good = read_text(file);
  std::string bad = good;
  bad.replace(bad.size() - 4, 4,
              std::string("\0\0\xc0\x7f", 4));  // a number that is none, which all ranks or one read
  write_text(file, bad);
  const auto question = [](const char* model) {
    return nlohmann::json{{"model", model}, {"prompt", "the cat"}, {"max_tokens", 4}, {"temperature", 0}};
  };
  for (const Arguments& ranks : {Arguments{"--tp", "2"}, Arguments{"--pp", "2"}}) {
    write_text(file, bad);
    serve(Arguments{"other", "--load-on-demand"} + ranks);
    const auto answer = ask("/v1/completions", question("chat"))["choices"];
    for (int i = 0; i < 2; ++i) {
      const HttpAnswer refused = post("/v1/completions", question("other"));
      EXPECT_EQ(refused.status, 503);
      EXPECT_EQ(refused.json()["error"]["code"], "model_load_failed");
      EXPECT_THAT(refused.body, ::testing::ContainsRegex(
                                    fmt::format("the model 'other' cannot be loaded: {}other: tensor '",
                                                ranks[0] == "--pp" ? "rank 1: [^ ]*" : "")));
      EXPECT_EQ(ask("/v1/completions", question("chat"))["choices"], answer);
    }
    fs::rename(file, path("away"));  // no rank finds it
    EXPECT_THAT(post("/v1/completions", question("other")).body,
                AllOf(HasSubstr("model_load_failed"), Not(HasSubstr("rank "))));
    write_text(file, good);
    EXPECT_EQ(ask("/v1/completions", question("other"))["choices"], answer);
    server().signal(SIGTERM);
    EXPECT_EQ(server().wait().exit_code, 0);
  }
}

TEST_F(SharedModels, AllProcessesFailWhereRank0Does) {
  const std::string port = free_port();
  const Arguments wrong = generate({"--tp", "2", "--beams", "2"});
  const auto first = start_rank(0, 2, port, wrong), second = start_rank(1, 2, port, wrong);
  const Outcome told = first->wait(), silent = second->wait();
  EXPECT_EQ(told.exit_code, 1) << told.text();
  EXPECT_THAT(told.err, HasSubstr("--beams is for encoder-decoders"));
  EXPECT_EQ(silent.exit_code, 1) << silent.text();
  EXPECT_THAT(silent.err, Not(HasSubstr("ERROR")));
}

TEST_F(SharedModels, RanksWithOtherFilesAreNamed) {
  // A path that leads each process elsewhere.
  fs::create_directory(path("there"));
  fs::copy(path("chat"), path("there/chat"), fs::copy_options::recursive);
  const std::string file = "there/chat/model.safetensors";
  std::string weights = read_text(path(file));
  weights[weights.size() - 2] ^= 1;
  fs::remove(path("there/chat/stoa-checksums.json"));
  fs::remove(path("chat/stoa-checksums.json"));
  const auto run = [&] {
    const std::string port = free_port();
    const Arguments arguments{"generate",
                              "/proc/self/cwd/chat",
                              "--prompt",
                              "the cat",
                              "--max-tokens",
                              "4",
                              "--greedy",
                              "--threads",
                              "1",
                              "--tp",
                              "2"};
    const auto first = start_rank(0, 2, port, arguments);
    ProgramOptions options;
    options.directory = path("there");
    options.program = "/usr/bin/env";
    Program second(variables_of(1, 2, port) + Arguments{test::program().string()} + arguments, options);
    Outcome told = first->wait();
    EXPECT_EQ(second.wait().exit_code, told.exit_code);
    return told;
  };
  EXPECT_EQ(run().exit_code, 0);
  write_text(path(file), weights);
  const Outcome differs = run();
  EXPECT_EQ(differs.exit_code, 1) << differs.text();
  EXPECT_THAT(differs.err, ::testing::ContainsRegex(
                               "ERROR rank 1@[^:]*: its files in '/proc/self/cwd/chat' are not those of "
                               "rank 0: 'model.safetensors' has [0-9]+ bytes, checksum"));
  fs::remove(path("there/chat/config.json"));
  EXPECT_THAT(run().err, HasSubstr("'config.json' is missing here"));
}

TEST_F(SharedModels, ASignalToAnyProcessEndsAll) {
  const auto serve_two = [&](const std::function<void(const Program& first, const Program& second)>& end) {
    const std::string port = free_port();
    const Arguments arguments{"serve", "chat", "--port", "0", "--threads", "1", "--tp", "2"};
    write_text(path("said.txt"), "");
    const auto first = start_rank(0, 2, port, arguments, path("said.txt")),
               second = start_rank(1, 2, port, arguments);
    EXPECT_TRUE(first->wait_until([&] {
      return read_text(path("said.txt")).find("listening") != std::string::npos;
    })) << first->wait().text()
        << second->errors();
    end(*first, *second);
    const Outcome one = first->wait(), other = second->wait();
    EXPECT_EQ(one.exit_code, 0) << one.text();
    EXPECT_EQ(other.exit_code, 0) << other.text();
    return one.err;
  };
  EXPECT_THAT(serve_two([](const Program&, const Program& second) { second.signal(SIGTERM); }),
              ::testing::ContainsRegex("a signal to rank 1@[^:]*: answers under way are finished"));
  serve_two([](const Program& first, const Program&) { first.signal(SIGTERM); });
  serve_two([](const Program& first, const Program& second) {  // as launchers do
    second.signal(SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    first.signal(SIGTERM);
  });
}

TEST_F(SharedModels, ProcessesOfMpiWriteWhatOneRankWrites) {
  if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "no mpirun";
  const std::string one = stoa_ok(generate()).out;
  const auto on_two = [&](const Arguments& ranks) {
    return Program(Arguments{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "mpirun",
                             "--oversubscribe", "--bind-to", "none", "-n", "2", test::program().string()} +
                       generate(ranks),
                   {directory(), {}, std::chrono::seconds(600), "/usr/bin/env"})
        .wait();
  };
  const Outcome same = on_two({"--tp", "2", "--exact-sum"});
  EXPECT_EQ(same.exit_code, 0) << same.text();
  EXPECT_EQ(same.out, one);
  const Outcome refused = on_two({"--tp", "2", "--pp", "2"});
  EXPECT_NE(refused.exit_code, 0) << refused.text();
  EXPECT_THAT(refused.err,
              HasSubstr("--tp 2 --ep 1 --pp 2 make 4 ranks, but the launcher started 2 processes"));
}

TEST_F(SharedModels, WhatCannotBeSharedIsRefused) {
  const auto refused = [&](const Arguments& more, const char* words) {
    const Outcome outcome = stoa(generate(more));
    EXPECT_EQ(outcome.exit_code, 1) << outcome.text();
    EXPECT_THAT(outcome.err, HasSubstr(words));
  };
  refused({"--tp", "3"}, "--tp 3: the model has 2 attention heads");
  refused({"--ep", "2"}, "--ep 2 distributes experts, and the model has none");
  refused({"--pp", "3"}, "--pp 3: the model has 2 layers: the nearest is --pp 2");
  EXPECT_THAT(stoa({"serve", "chat", "--port", "0", "--tp", "3", "--kv-memory-gb", "1"}).err,
              HasSubstr("ERROR --tp 3: the model has 2 attention heads"));
}

}  // namespace
}  // namespace stoa::e2e
