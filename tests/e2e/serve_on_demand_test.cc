// Models that are loaded when they are asked for, and unloaded.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "served.h"

namespace stoa::e2e {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ServeOnDemand : public Served {
 protected:
  void SetUp() override {
    Served::SetUp();
    fs::copy(path("chat"), path("other"), fs::copy_options::recursive);
  }

  // "unloaded", "loading", …
  json status_of(const std::string& model) const {
    return get("/v1/models/" + model).json().value("status", json::object());
  }
  bool reaches(const std::string& model, const std::string& state) {
    return server().wait_until([&] { return status_of(model)["value"] == state; });
  }
  bool has_waiting(const std::string& model, int requests) {
    return server().wait_until([&] { return status_of(model)["waiting"] == requests; });
  }
  double counted(const std::string& name, const std::string& model) const {
    return metric("stoa:model_" + name + "{model_name=\"" + model + "\"}");
  }
  // Reading the model stops at this file until release_load().
  void hold_load() const {
    fs::remove(path("other/generation_config.json"));
    ASSERT_EQ(::mkfifo(path("other/generation_config.json").c_str(), 0600), 0);
  }
  void release_load(const std::string& content) const {
    const int file = ::open(path("other/generation_config.json").c_str(), O_WRONLY);
    ASSERT_GE(file, 0);
    EXPECT_EQ(::write(file, content.data(), content.size()), static_cast<ssize_t>(content.size()));
    ::close(file);
  }
  static json question(const std::string& model, int tokens = 4) {
    return {{"model", model},
            {"prompt", "the stone"},
            {"max_tokens", tokens},
            {"temperature", 0},
            {"ignore_eos", true}};
  }
};

TEST_F(ServeOnDemand, AModelIsLoadedByItsFirstRequestAndUnloadedWhenIdle) {
  serve({"other", "--load-on-demand", "--unload-after", "0.4"});
  const json models = get("/v1/models").json()["data"];
  ASSERT_EQ(models.size(), 2u);
  for (const json& model : models) {
    EXPECT_EQ(model["status"]["value"], "unloaded");
    EXPECT_EQ(model["max_model_len"], nullptr);
  }
  const json answer = ask("/v1/completions", question("other"));
  EXPECT_EQ(answer["model"], "other");
  EXPECT_EQ(get("/v1/models/other").json()["max_model_len"], 8192);
  EXPECT_EQ(status_of("chat")["value"], "unloaded");
  EXPECT_TRUE(reaches("other", "unloaded"));
  EXPECT_EQ(counted("loaded", "other"), 0);
  EXPECT_EQ(counted("unloads_total", "other"), 1);
  EXPECT_EQ(ask("/v1/completions", question("other"))["choices"], answer["choices"]);
  EXPECT_EQ(counted("loads_total", "other"), 2);
  EXPECT_EQ(counted("loads_total", "chat"), 0);
  EXPECT_EQ(metric("vllm:generation_tokens_total{model_name=\"other\"}"), 8);  // of both loads
  // A request that takes longer than the time keeps its model.
  const json chosen = ask("/v1/completions", question("chat", 3000));
  EXPECT_EQ(chosen["usage"]["completion_tokens"], 3000);
  EXPECT_EQ(counted("loads_total", "chat"), 1);
}

TEST_F(ServeOnDemand, RequestsWaitWhileAModelIsReadAndMayLeave) {
  hold_load();
  serve({"other", "--load-on-demand"});
  ask("/v1/completions", question("chat"));
  std::vector<std::unique_ptr<HttpConnection>> clients;
  json streamed = question("other");
  streamed["stream"] = true;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<HttpConnection>(port()));
    clients.back()->send(http_request("POST", "/v1/completions", streamed.dump()));
  }
  EXPECT_TRUE(reaches("other", "loading"));
  EXPECT_TRUE(has_waiting("other", 3));
  ask("/v1/completions", question("chat"));  // the others answer
  clients[1]->reset();
  EXPECT_TRUE(has_waiting("other", 2));
  release_load("{}");
  for (const int i : {0, 2}) {
    const HttpAnswer answer = clients[static_cast<std::size_t>(i)]->read();
    EXPECT_EQ(answer.status, 200);
    EXPECT_GE(answer.events().size(), 4u);
  }
  EXPECT_EQ(metric("vllm:request_success_total{model_name=\"other\",finished_reason=\"length\"}"), 2);
}

TEST_F(ServeOnDemand, AFullQueueSaysWhenToComeAgain) {
  hold_load();
  serve({"other", "--load-on-demand", "--max-queue-seconds", "0"});
  HttpConnection first(port());
  first.send(http_request("POST", "/v1/completions", question("other").dump()));
  EXPECT_TRUE(has_waiting("other", 1));
  const HttpAnswer second = post("/v1/completions", question("other"));
  EXPECT_EQ(second.status, 429);
  EXPECT_GE(std::stoi(second.headers.at("retry-after")), 1);
  EXPECT_THAT(second.body, HasSubstr("1 requests wait for it"));
  release_load("{}");
  EXPECT_EQ(first.read().status, 200);
  EXPECT_EQ(post("/v1/completions", question("other")).status, 200);
  EXPECT_EQ(metric("vllm:admission_rejections_total{model_name=\"other\"}"), 1);
}

TEST_F(ServeOnDemand, AFailedLoadIsAnErrorOfItsRequestsAlone) {
  hold_load();
  serve({"other", "--load-on-demand"});
  HttpConnection first(port());
  first.send(http_request("POST", "/v1/completions", question("other").dump()));
  EXPECT_TRUE(reaches("other", "loading"));
  release_load("nonsense");
  const HttpAnswer answer = first.read();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.json()["error"]["code"], "model_load_failed");
  EXPECT_THAT(answer.body, HasSubstr("generation_config.json"));
  EXPECT_EQ(status_of("other")["value"], "failed");
  EXPECT_EQ(counted("load_failures_total", "other"), 1);
  ask("/v1/completions", question("chat"));
  fs::remove(path("other/generation_config.json"));
  ask("/v1/completions", question("other"));  // it is tried again
  EXPECT_EQ(status_of("other")["value"], "loaded");
}

TEST_F(ServeOnDemand, WhoWaitsIsToldThatTheServerStops) {
  hold_load();
  serve({"other", "--load-on-demand", "--drain-seconds", "0.2"});
  HttpConnection client(port());
  client.send(http_request("POST", "/v1/completions", question("other").dump()));
  EXPECT_TRUE(reaches("other", "loading"));
  server().signal(SIGTERM);
  EXPECT_EQ(client.read().status, 503);
  release_load("{}");
  EXPECT_EQ(server().wait().exit_code, 0);
}

// Two models where one fits: each makes room for the other, and no request is lost or answered otherwise.
TEST_F(ServeOnDemand, TheMemoryIsSharedInTurns) {
  const Arguments small{"other", "--kv-memory-gb", "0.01", "--model-memory-gb"};
  serve(small + Arguments{"100", "--load-on-demand"});
  const json choices = ask("/v1/completions", question("chat"))["choices"];
  const double bytes = counted("memory_bytes", "chat");
  EXPECT_GT(bytes, 1e7);
  serve(small + Arguments{fmt::format("{}", 1.5 * bytes / 1e9)});
  EXPECT_EQ(status_of("chat")["value"], "loaded");  // at the start, as far as the memory allows
  EXPECT_EQ(status_of("other")["value"], "unloaded");

  // A stream that is under way is answered to its end before its model makes room.
  HttpConnection streaming(port());
  json streamed = question("chat", 2000);
  streamed["stream"] = true;
  streaming.send(http_request("POST", "/v1/completions", streamed.dump()));
  streaming.read_until("data:");
  std::jthread asks_other([&] { EXPECT_EQ(ask("/v1/completions", question("other"))["choices"], choices); });
  const HttpAnswer whole = streaming.read();
  EXPECT_THAT(whole.body, HasSubstr("[DONE]"));
  asks_other.join();
  EXPECT_TRUE(reaches("chat", "unloaded"));

  std::atomic<int> answered{0};
  std::vector<std::jthread> clients;
  for (int client = 0; client < 6; ++client)
    clients.emplace_back([&, client] {
      for (int i = 0; i < 12; ++i)
        if (ask("/v1/completions", question((client + i / 4) % 2 == 0 ? "chat" : "other"))["choices"] ==
            choices)
          ++answered;
    });
  clients.clear();
  EXPECT_EQ(answered, 72);
  EXPECT_GE(counted("unloads_total", "chat"), 1);
  EXPECT_LE(counted("loaded", "chat") + counted("loaded", "other"), 1);

  serve(small + Arguments{fmt::format("{}", 0.5 * bytes / 1e9), "--load-on-demand"});
  const HttpAnswer refused = post("/v1/completions", question("chat"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("--model-memory-gb"));
  const Outcome outcome = stoa({"serve", "chat", "--port", "0", "--kv-memory-gb", "0.01", "--dtype", "fp32",
                                "--model-memory-gb", fmt::format("{}", 0.5 * bytes / 1e9)});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.text();
  EXPECT_THAT(outcome.err, HasSubstr("the model 'chat' needs"));
}

TEST_F(ServeOnDemand, AModelThatIsNotThereIsNamedAtTheStart) {
  const Outcome outcome = stoa({"serve", "chat", "nowhere", "--port", "0", "--load-on-demand"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("nowhere"));
}

}  // namespace
}  // namespace stoa::e2e
