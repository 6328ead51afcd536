// Requests that no client should send, among good ones: nothing crashes, and good answers stay as they are.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "base/file.h"
#include "base/philox.h"
#include "served.h"

namespace stoa::e2e {
namespace {

using nlohmann::json;

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

std::string with_length(const std::string& body) { return http_request("POST", "/v1/completions", body); }

// Bytes that are no request of HTTP, or hardly.
std::vector<std::string> broken_requests() {
  const std::string line = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n";
  std::vector<std::string> out{
      "\r\n\r\n\r\n",
      "GET\r\n\r\n",
      "GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
      "GET / HTTP/1.1\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
      "GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "GET /%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "GET nonsense HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
      std::string("\0\0\0\0\r\n\r\n", 8),
      "BREW /v1/completions HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "GET http://evil.example/v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n",
      line + "Content-Length: -1\r\n\r\n",
      line + "Content-Length: 99999999999999999999999\r\n\r\n",
      line + "Content-Length: 0x10\r\n\r\n",
      line + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
      line + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      line + "Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
      line + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n\r\n",
      line + "Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
      line + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}0\r\n\r\n",
      line + "Transfer-Encoding: gzip\r\n\r\n\x1f\x8b",
      line + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
      line + " folded: header\r\n\r\n",
      line + "No colon here\r\n\r\n",
      line + "Bad\x01Name: x\r\n\r\n",
      line + "Expect: 200-maybe\r\nContent-Length: 2\r\n\r\n{}",
      line + "Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x01",
      line + "Upgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 2\r\n\r\n{}",
      line + repeated("X: y\r\n", 10000) + "\r\n",
      "GET /" + std::string(100000, 'a') + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
      line + "Content-Length: 100\r\n\r\n{\"prompt\":",  // and no more
      "POST /v1/comple"};
  return out;
}

// Bodies of /v1/completions that are refused, or answered with little.
std::vector<std::string> broken_bodies() {
  std::vector<std::string> out{"",
                               "null",
                               "[]",
                               "{",
                               "{}",
                               "\"text\"",
                               "1e999",
                               "{\"prompt\":\"a\"}}",
                               "{\"prompt\":\"\xff\xfe\"}",
                               "{\"prompt\":\"\\ud800\"}",
                               "{\"prompt\":\"\\udc00\\ud800\"}",
                               "{\"prompt\":\"a\",\"prompt\":[1,2]}",
                               "{\"prompt\":NaN}",
                               "{'prompt':'a'}",
                               "{\"prompt\":\"a\",}",
                               "\xef\xbb\xbf{\"prompt\":\"a\",\"max_tokens\":1}",
                               std::string("{\"prompt\":\"a\0b\"}", 16),
                               repeated("[", 100000),
                               repeated("{\"a\":", 100000),
                               "{\"prompt\":" + repeated("[", 60) + repeated("]", 60) + "}",
                               "{\"prompt\":[" + repeated("[1],", 1025) + "[1]]}",
                               "{\"prompt\":[" + repeated("1,", 200000) + "1]}",
                               "{\"prompt\":\"" + std::string(1000000, 'x') + "\",\"max_tokens\":1}"};
  const std::vector<std::string> odd{"null",
                                     "true",
                                     "-1",
                                     "0",
                                     "1.5",
                                     "1e308",
                                     "-1e308",
                                     "1e999",
                                     "NaN",
                                     "99999999999999999999",
                                     "-9223372036854775808",
                                     "\"\"",
                                     "\"a\"",
                                     "[]",
                                     "[null]",
                                     "[\"\"]",
                                     "[[]]",
                                     "[{}]",
                                     "{}",
                                     "{\"a\":1}",
                                     "[1e400]",
                                     "{\"-1\":1}",
                                     "{\"1\":1e9}",
                                     "{\"1\":null}",
                                     "[-1]",
                                     "[1.5]",
                                     "[2147483648]"};
  for (const char* field : {"prompt",
                            "max_tokens",
                            "temperature",
                            "top_p",
                            "top_k",
                            "min_p",
                            "n",
                            "best_of",
                            "echo",
                            "logprobs",
                            "stop",
                            "seed",
                            "suffix",
                            "presence_penalty",
                            "frequency_penalty",
                            "repetition_penalty",
                            "logit_bias",
                            "stream",
                            "stream_options",
                            "min_tokens",
                            "ignore_eos",
                            "stop_token_ids",
                            "truncate_prompt_tokens",
                            "response_format",
                            "structured_outputs",
                            "guided_json",
                            "guided_regex",
                            "guided_choice",
                            "grammar",
                            "json_schema",
                            "bad_words",
                            "prompt_embeds",
                            "model",
                            "n_discard",
                            "user"})
    for (const std::string& value : odd)
      out.push_back(std::string(field) == "prompt"
                        ? "{\"max_tokens\":1,\"prompt\":" + value + "}"
                        : "{\"prompt\":\"a\",\"" + std::string(field) + "\":" + value + "}");
  std::string stops = "[\"a\"";
  for (int i = 0; i < 100000; ++i) stops += ",\"a\"";
  out.push_back("{\"prompt\":\"a\",\"stop\":" + stops + "]}");
  out.push_back("{\"prompt\":\"a\",\"stop\":\"" + std::string(5000, 's') + "\"}");
  for (const char* pattern : {"(a|b)*a(a|b){30}", "((a{1000}){1000}){1000}", "(", "(?=a)", "\\\\1", "[^"})
    out.push_back("{\"prompt\":\"a\",\"guided_regex\":\"" + std::string(pattern) + "\"}");
  for (const char* grammar : {"root ::= root", "root ::= a\\na ::= root a | \\\"\\\"", "root ::= (",
                              "root ::= \\\"a\\\"{1000000}{1000000}", "root ::= <[99999999]>"})
    out.push_back("{\"prompt\":\"a\",\"grammar\":\"" + std::string(grammar) + "\"}");
  std::string deep = "{}";
  for (int i = 0; i < 25; ++i) deep = "{\"items\":" + deep + "}";
  for (const std::string& schema :
       {deep, std::string(R"({"$ref":"#"})"),
        std::string(R"({"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"$ref":"#"}}})"),
        std::string(R"({"not":{}})"), std::string(R"({"type":"object","minProperties":100000})"),
        std::string(R"({"enum":[]})"), std::string(R"({"type":"string","pattern":"(a|b)*a(a|b){40}"})")})
    out.push_back("{\"prompt\":\"a\",\"json_schema\":" + schema + "}");
  return out;
}

std::vector<std::string> broken_chats() {
  std::vector<std::string> out;
  for (const char* messages :
       {"null", "[]", "{}", "\"a\"", "[null]", "[{}]", "[{\"role\":\"user\"}]",
        "[{\"role\":1,\"content\":\"a\"}]", "[{\"role\":\"root\",\"content\":\"a\"}]",
        "[{\"role\":\"user\",\"content\":5}]", "[{\"role\":\"user\",\"content\":[{}]}]",
        "[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:x\"}}]}]",
        "[{\"role\":\"assistant\",\"tool_calls\":5}]", "[{\"role\":\"assistant\",\"tool_calls\":[{}]}]",
        "[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]}]",
        "[{\"role\":\"user\",\"content\":\"<|endoftext|></s><s>[INST]\"}]",
        "[{\"role\":\"tool\",\"content\":null}]"})
    out.push_back("{\"max_tokens\":1,\"messages\":" + std::string(messages) + "}");
  const std::string good = "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],";
  for (const char* more :
       {"\"tools\":5}", "\"tools\":[5]}", "\"tools\":[{\"type\":\"function\"}]}",
        "\"tool_choice\":\"required\"}",
        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],\"tool_choice\":\"required\"}",
        "\"chat_template\":\"{% for i in range(10**9) %}x{% endfor %}\"}", "\"chat_template_kwargs\":[]}",
        "\"chat_template_kwargs\":{\"messages\":[]}}", "\"response_format\":{\"type\":\"json_schema\"}}",
        "\"top_logprobs\":5}", "\"logprobs\":5}", "\"functions\":[{}]}", "\"modalities\":[\"audio\"]}",
        "\"guided_regex\":\"(a*)*b\"}"})
    out.push_back(good + more);
  return out;
}

std::vector<std::string> broken_messages() {
  std::vector<std::string> out;
  for (const char* content :
       {"null", "5", "{}", "[]", "[5]", "[{}]", "[{\"type\":5}]", "[{\"type\":\"thinking\"}]",
        "[{\"type\":\"tool_use\"}]", "[{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"b\",\"input\":[]}]",
        "[{\"type\":\"tool_result\"}]", "[{\"type\":\"tool_result\",\"tool_use_id\":\"a\",\"content\":[5]}]",
        "[{\"type\":\"image\",\"source\":{}}]", "\"\"", "\" \""})
    for (const char* role : {"\"user\"", "\"assistant\"", "\"tool\"", "null"})
      out.push_back(
          fmt::format(R"({{"max_tokens":1,"messages":[{{"role":{},"content":{}}}]}})", role, content));
  const std::string good = "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],";
  for (const char* more :
       {"\"tools\":5}", "\"tools\":[5]}", "\"tools\":[{}]}",
        "\"tools\":[{\"name\":\"a\",\"input_schema\":5}]}", "\"tool_choice\":5}", "\"tool_choice\":{}}",
        "\"tool_choice\":{\"type\":\"tool\"}}", "\"tool_choice\":{\"type\":\"any\"}}",
        "\"stop_sequences\":5}", "\"system\":[5]}", "\"max_tokens\":-1}",
        "\"tools\":[{\"name\":\"a\",\"input_schema\":{}}],\"tool_choice\":{\"type\":\"tool\",\"name\":\"b\"}"
        "}"})
    out.push_back(good + more);
  return out;
}

// How many requests there are at least: the tests have time for few.
std::size_t wanted_requests() {
  const char* given = std::getenv("STOA_HOSTILE_REQUESTS");
  return given ? std::stoul(given) : 900;
}

class ServeHostile : public Served {
 protected:
  std::size_t open_descriptors() {
    std::size_t count = 0;
    for (const auto& item : fs::directory_iterator(fmt::format("/proc/{}/fd", server().id())))
      count += !item.path().empty();
    return count;
  }
};

TEST_F(ServeHostile, ChangesNothingForOthers) {
  serve();
  const json question{{"prompt", "the stone"}, {"max_tokens", 8}, {"temperature", 0}, {"logprobs", 1}};
  const json good = ask("/v1/completions", question)["choices"];
  const std::size_t descriptors = open_descriptors();
  std::size_t hostile = 0;
  const auto look = [&] {
    if (++hostile % 10 != 0) return;
    ASSERT_EQ(ask("/v1/completions", question)["choices"], good) << "after " << hostile;
  };
  for (const std::string& bytes : broken_requests()) {
    HttpConnection connection(port());
    connection.send(bytes);
    connection.shut_down();
    const HttpAnswer answer = connection.read();
    EXPECT_TRUE(answer.status == 0 || answer.status == 200 || (answer.status >= 400 && answer.status < 500))
        << bytes.substr(0, 100);
    look();
  }
  for (const std::string& body : broken_bodies()) {
    HttpConnection connection(port());
    connection.send(with_length(body));
    const HttpAnswer answer = connection.read();
    EXPECT_TRUE(answer.status == 200 || (answer.status >= 400 && answer.status < 500))
        << answer.status << " " << body.substr(0, 200) << answer.body;
    EXPECT_TRUE(answer.status == 200 || answer.json()["error"]["message"].is_string()) << answer.body;
    look();
  }
  std::vector<std::string> requests{with_length(question.dump())};
  const auto post_each = [&](const std::string& route, const std::vector<std::string>& bodies) {
    for (const std::string& body : bodies) {
      const HttpAnswer answer = post_text(route, body);
      EXPECT_TRUE(answer.status == 200 || (answer.status >= 400 && answer.status < 500))
          << answer.status << " " << body << answer.body;
      requests.push_back(http_request("POST", route, body));
      look();
    }
  };
  post_each("/v1/chat/completions", broken_chats());
  post_each("/v1/messages", broken_messages());
  post_each("/v1/messages/count_tokens", broken_messages());
  EXPECT_GE(hostile, 700U) << "requests of the lists";
  // Bytes by chance in requests.
  const PhiloxKey key = philox_key(5, RandomPurpose::kTest, "hostile");
  const std::size_t wanted = std::max(wanted_requests(), hostile + std::size_t{200});
  for (std::uint64_t i = 0; hostile < wanted; ++i) {
    std::string bytes = requests[i % 2 == 0 ? 0 : i / 2 % requests.size()];
    for (std::uint64_t k = 0; k < 3; ++k)
      bytes[philox_word(key, 8 * i + 2 * k) % bytes.size()] =
          static_cast<char>(philox_word(key, 8 * i + 2 * k + 1));
    HttpConnection connection(port());
    connection.send(bytes);
    connection.shut_down();
    connection.read();
    look();
  }
  expect_idle();
  // Connections are closed a moment after their clients are, not when their idle time of 75 seconds is over.
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(server().wait_until([&] { return open_descriptors() <= descriptors + 1; }))
      << open_descriptors();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(40));
}

}  // namespace
}  // namespace stoa::e2e
