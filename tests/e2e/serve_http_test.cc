// `stoa serve` as a server: routes, keys, hosts, limits, connections, the queue, and its end.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <sstream>
#include <thread>

#include "base/file.h"
#include "served.h"

namespace stoa::e2e {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ServeHttp : public Served {
 protected:
  static json long_request(bool stream) {
    return {{"prompt", "the"}, {"max_tokens", 8000}, {"ignore_eos", true}, {"stream", stream}, {"seed", 1}};
  }
  static void expect_error(const HttpAnswer& answer, int status, const std::string& type, const json& param,
                           const std::string& words) {
    EXPECT_EQ(answer.status, status) << answer.body;
    const json error = answer.json().value("error", json());
    EXPECT_EQ(error.value("type", ""), type) << answer.body;
    EXPECT_EQ(error.value("param", json()), param) << answer.body;
    EXPECT_THAT(error.value("message", ""), HasSubstr(words));
  }
};

TEST_F(ServeHttp, RoutesAndErrors) {
  serve();
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(get("/ping").status, 200);
  EXPECT_FALSE(get("/version").json()["version"].empty());
  EXPECT_EQ(get("/v1/models").json()["data"][0]["id"], "chat");
  EXPECT_EQ(get("/v1/models/chat").json()["max_model_len"], 8192);
  expect_error(get("/v1/models/a%2Fb"), 404, "not_found_error", "model", "'a/b'");
  EXPECT_EQ(get("/props").json()["default_generation_settings"]["n_ctx"], 8192);
  EXPECT_TRUE(get("/tokenizer_info").json().contains("eos_token"));
  expect_error(get("/v1/completion"), 404, "not_found_error", nullptr, "/v1/completions");
  const HttpAnswer wrong = get("/v1/completions");
  expect_error(wrong, 405, "invalid_request_error", nullptr, "POST");
  EXPECT_EQ(wrong.headers.at("allow"), "POST");
  HttpConnection head(port());
  head.send(http_request("HEAD", "/v1/models"));
  EXPECT_EQ(head.read(true).status, 200);

  const auto refused = [&](const json& body, const json& param, const std::string& words) {
    expect_error(post("/v1/completions", body), 400, "invalid_request_error", param, words);
  };
  refused({{"prompt", "a"}, {"max_token", 3}}, "max_token", "did you mean 'max_tokens'");
  refused({{"prompt", "a"}, {"temperature", -1}}, "temperature", "between 0 and 100, got -1");
  refused({{"prompt", "a"}, {"max_tokens", 2.5}}, "max_tokens", "whole number");
  refused({{"prompt", "a"}, {"max_tokens", 100000}}, "max_tokens", "8192");
  refused({{"prompt", "a"}, {"suffix", "b"}}, "suffix", "no tokens for filling in the middle");
  refused({{"prompt", "a"}, {"logprobs", 21}}, "logprobs", "between 0 and 20");
  refused({{"prompt", {1, -5}}}, "prompt", "-5");
  refused({{"prompt", {1, 100000}}}, "prompt", "outside the vocabulary");
  refused({{"prompt", "a"}, {"n", 0}}, "n", "between 1 and");
  refused({{"prompt", "a"}, {"logit_bias", {{"70000", 1}}}}, "logit_bias", "70000");
  refused({{"max_tokens", 1}}, "prompt", "missing");
  refused({{"prompt", "a"}, {"stop", {""}}}, "stop", "empty");
  expect_error(post("/v1/completions", {{"prompt", "a"}, {"model", "chatt"}}), 404, "not_found_error",
               "model", "did you mean 'chat'");
  expect_error(
      post("/v1/chat/completions", {{"messages", json::array({{{"role", "usr"}, {"content", "a"}}})}}), 400,
      "invalid_request_error", "messages", "messages[0]: unknown role 'usr'");
  expect_error(
      post("/v1/chat/completions", {{"messages", json::array({{{"role", "user"}, {"content", "a"}}})},
                                    {"response_format", {{"type", "json_objekt"}}}}),
      400, "invalid_request_error", "response_format", "did you mean 'json_object'");
  expect_error(post("/v1/embeddings", {{"input", "a"}}), 400, "invalid_request_error", "model", "no encoder");
  expect_error(post_text("/v1/completions", "{\"prompt\": "), 400, "invalid_request_error", nullptr,
               "not JSON");
  // Slashes too many, and names of other servers.
  for (const char* route : {"/v1/models/", "//v1/models", "/models", "/health/"})
    EXPECT_EQ(get(route).status, 200) << route;
  EXPECT_EQ(get("/v1/models/chat/").json()["id"], "chat");
  // What other servers take without an effect.
  const json of_others{{"prompt", "a"}, {"max_tokens", -1},     {"stop", {"e"}},
                       {"top_p", 0},    {"cache_prompt", true}, {"mirostat", 0},
                       {"n_probs", 0},  {"repeat_penalty", 1},  {"length_penalty", 1}};
  EXPECT_EQ(post("/v1/completions", of_others).status, 200);
  refused({{"prompt", "a"}, {"mirostat", 2}}, "mirostat", "not supported");
  refused({{"prompt", "a"}, {"max_tokens", -2}}, "max_tokens", "between -1 and");
  // Values that mean the same as none.
  const json neutral{{"prompt", "a"}, {"suffix", ""},          {"best_of", 1},
                     {"user", "me"},  {"logit_bias", nullptr}, {"stop", json::array()}};
  EXPECT_EQ(post("/v1/completions", neutral).status, 200);
}

TEST_F(ServeHttp, ConnectionsAndLimits) {
  serve({"--max-body-mb", "1"});
  const std::string body = json{{"prompt", "a"}, {"max_tokens", 2}, {"temperature", 0}}.dump();
  HttpConnection connection(port());
  connection.send(http_request("POST", "/v1/completions", body));
  const HttpAnswer first = connection.read();
  EXPECT_EQ(first.status, 200);
  EXPECT_TRUE(first.headers.contains("x-request-id"));
  // Pipelined, chunked, and one that waits for a go-ahead.
  connection.send(http_request("POST", "/v1/completions", body) + http_request("GET", "/health"));
  EXPECT_EQ(connection.read().json()["choices"], first.json()["choices"]);
  EXPECT_EQ(connection.read().status, 200);
  connection.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" +
                  fmt::format("{:x}\r\n{}\r\n0\r\n\r\n", body.size(), body));
  EXPECT_EQ(connection.read().json()["choices"], first.json()["choices"]);
  connection.send(
      fmt::format("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: "
                  "100-continue\r\nContent-Length: {}\r\n\r\n",
                  body.size()));
  EXPECT_THAT(connection.read_until("\r\n\r\n"), HasSubstr("100 Continue"));
  connection.send(body);
  EXPECT_EQ(connection.read().json()["choices"], first.json()["choices"]);
  connection.send(
      "POST /tokenize HTTP/1.0\r\nExpect: 100-continue\r\nConnection: keep-alive\r\n"
      "Content-Length: 15\r\n\r\n{\"prompt\": \"a\"}");
  EXPECT_EQ(connection.read().status, 200);  // 1.0 knows no 100
  // Some clients end a body with a line that is not counted.
  for (int i = 0; i < 2; ++i) {
    connection.send("\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_EQ(connection.read().status, 200);
  }
  connection.send("GET /health HTTP/1.0\r\n\r\n");
  EXPECT_EQ(connection.read().status, 200);
  EXPECT_EQ(connection.read().status, 0);  // closed, as 1.0 says
  HttpConnection lines(port());
  lines.send("\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(lines.read().status, 400);

  HttpConnection large(port());
  large.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000000\r\n\r\n");
  expect_error(large.read(), 413, "invalid_request_error", nullptr, "1048576");
  // A client that sends all of the body before it reads gets the answer, too.
  HttpConnection stubborn(port());
  stubborn.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20000000\r\n\r\n");
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(stubborn.send(std::string(100'000, 'x'))) << i;
  expect_error(stubborn.read(), 413, "invalid_request_error", nullptr, "1048576");
  HttpConnection older(port());
  older.send("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(older.read().headers.at("connection"), "keep-alive");
  older.send(http_request("POST", "/v1/completions", body, "Content-Encoding: gzip\r\n"));
  expect_error(older.read(), 415, "invalid_request_error", nullptr, "'gzip' is not read");
  older.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n");
  expect_error(older.read(), 400, "invalid_request_error", nullptr, "chunked is read");
  HttpConnection headers(port());
  headers.send("GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(40000, 'x') + "\r\n\r\n");
  expect_error(headers.read(), 431, "invalid_request_error", nullptr, "32768");
  HttpConnection both(port());
  both.send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: "
      "chunked\r\n\r\n0\r\n\r\n");
  EXPECT_EQ(both.read().status, 400);
}

TEST_F(ServeHttp, KeysHostsAndOrigins) {
  write_text(path("keys.txt"), "# ours\nsecret-one\nsecret-two\n");
  serve({"--api-key-file", "keys.txt", "--allowed-host", "models.example", "--allowed-origin",
         "https://ui.example"});
  expect_error(get("/v1/models"), 401, "authentication_error", nullptr, "API key");
  expect_error(get("/v1/models", "Authorization: Bearer secret-on\r\n"), 401, "authentication_error", nullptr,
               "not known");
  EXPECT_EQ(get("/v1/models", "Authorization: Bearer secret-two\r\n").status, 200);
  EXPECT_EQ(get("/v1/models", "X-Api-Key: secret-one\r\n").status, 200);
  EXPECT_EQ(get("/health").status, 200);
  const auto at = [&](const std::string& host, const std::string& more = {}) {
    HttpConnection connection(port());
    connection.send("GET /health HTTP/1.1\r\nHost: " + host + "\r\n" + more + "\r\n");
    return connection.read();
  };
  EXPECT_EQ(at("127.0.0.1:8000").status, 200);
  EXPECT_EQ(at("[::1]:8000").status, 200);
  EXPECT_EQ(at("models.example").status, 200);
  EXPECT_EQ(at("evil.example:8000").status, 403);
  EXPECT_EQ(at("localhost:1", "Origin: https://evil.example\r\n").status, 403);
  EXPECT_EQ(at("localhost:1", "Origin: http://localhost:1\r\n").status, 200);
  const HttpAnswer allowed = at("localhost:1", "Origin: https://ui.example\r\n");
  EXPECT_EQ(allowed.status, 200);
  EXPECT_EQ(allowed.headers.at("access-control-allow-origin"), "https://ui.example");
  HttpConnection preflight(port());
  preflight.send(
      "OPTIONS /v1/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: https://ui.example\r\n"
      "Access-Control-Request-Headers: authorization, x-stainless-lang\r\n\r\n");
  const HttpAnswer may = preflight.read();
  EXPECT_EQ(may.status, 204);
  EXPECT_EQ(may.headers.at("access-control-allow-headers"), "authorization, x-stainless-lang");
}

// Who leaves is no longer worked for.
TEST_F(ServeHttp, ClientsThatLeaveAreCancelled) {
  serve();
  {
    HttpConnection streams(port()), waits(port()), resets(port());
    streams.send(http_request("POST", "/v1/completions", long_request(true).dump()));
    EXPECT_THAT(streams.read_until("data: "), HasSubstr("data: "));
    waits.send(http_request("POST", "/v1/completions", long_request(false).dump()));
    resets.send(http_request("POST", "/v1/completions", long_request(true).dump()));
    resets.reset();
  }
  expect_idle();
  EXPECT_GT(metric("vllm:request_success_total{model_name=\"chat\",finished_reason=\"abort\"}"), 0);
  EXPECT_LT(metric("vllm:generation_tokens_total"), 8000);
  ask("/v1/completions", {{"prompt", "a"}});
}

TEST_F(ServeHttp, AFullQueueSaysWhenToComeAgain) {
  serve({"--max-queue-seconds", "0"});
  ask("/v1/completions", {{"prompt", "a"}});  // its pace is known now
  HttpConnection first(port());
  first.send(http_request("POST", "/v1/completions", long_request(true).dump()));
  first.read_until("data: ");
  const HttpAnswer refused = post("/v1/completions", {{"prompt", "a"}});
  expect_error(refused, 429, "rate_limit_error", nullptr, "busy");
  EXPECT_GE(std::stoi(refused.headers.at("retry-after")), 1);
}

TEST_F(ServeHttp, AnswersUnderWayAreFinishedAtItsEnd) {
  serve({"--access-log", "log.jsonl"});
  HttpConnection idle(port()), busy(port());
  json request = long_request(true);
  request["max_tokens"] = 500;
  busy.send(http_request("POST", "/v1/completions", request.dump(), "X-Request-Id: mine\r\n"));
  busy.read_until("data: ");
  server().signal(SIGTERM);
  const HttpAnswer answer = busy.read();
  EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(idle.read().status, 0);
  const Outcome outcome = server().wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text();
  std::istringstream log(read_text(path("log.jsonl")));
  std::string line;
  ASSERT_TRUE(std::getline(log, line));
  EXPECT_EQ(json::parse(line)["request_id"], "mine");
  EXPECT_EQ(json::parse(line)["status"], 200);
}

TEST_F(ServeHttp, WhatIsNotFinishedInTimeEndsWithAnError) {
  serve({"--drain-seconds", "0"});
  HttpConnection busy(port());
  busy.send(http_request("POST", "/v1/completions", long_request(true).dump()));
  busy.read_until("data: ");
  server().signal(SIGINT);
  const HttpAnswer answer = busy.read();
  EXPECT_THAT(answer.body, HasSubstr("\"error\":{\"message\":\"the server is shutting down\""));
  EXPECT_EQ(server().wait().exit_code, 0);
}

TEST_F(ServeHttp, SeveralModelsAndBadArguments) {
  fs::copy(path("chat"), path("other"), fs::copy_options::recursive);
  serve({"second=other", "--max-context", "100"});
  EXPECT_EQ(get("/v1/models").json()["data"].size(), 2u);
  EXPECT_EQ(ask("/v1/completions", {{"model", "second"}, {"prompt", "a"}})["model"], "second");
  expect_error(post("/v1/completions", {{"prompt", "a"}, {"max_tokens", 101}}), 400, "invalid_request_error",
               "max_tokens", "100");
  const Outcome same = stoa({"serve", "chat", "chat=other", "--port", "0"});
  EXPECT_EQ(same.exit_code, 1) << same.text();
  EXPECT_THAT(same.err, HasSubstr("two models are named 'chat'"));
  const Outcome taken = stoa({"serve", "chat", "--port", std::to_string(port())});
  EXPECT_EQ(taken.exit_code, 1);
  EXPECT_THAT(taken.err, HasSubstr("cannot listen on 127.0.0.1 port"));
  const Outcome little = stoa({"serve", "chat", "--port", "0", "--kv-memory-gb", "0.000001"});
  EXPECT_EQ(little.exit_code, 1);
  EXPECT_THAT(little.err, HasSubstr("--kv-memory-gb"));
}

}  // namespace
}  // namespace stoa::e2e
