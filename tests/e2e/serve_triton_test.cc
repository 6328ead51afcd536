// Triton's endpoints: what its clients ask a server and its models, and the generate extension.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "served.h"

namespace stoa::e2e {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ServeTriton : public Served {
 protected:
  // The text of a completion that is drawn without chance.
  std::string completed(json body) const {
    body["prompt"] = "the stone";
    body["temperature"] = 0;
    return ask("/v1/completions", body)["choices"][0]["text"];
  }
};

TEST_F(ServeTriton, DescribesItselfAndItsModels) {
  serve();
  EXPECT_EQ(get("/v2").json()["extensions"], json::array({"generate"}));
  for (const char* path : {"/v2/health/live", "/v2/health/ready", "/v2/models/chat/ready",
                           "/v2/models/chat/versions/1/ready", "/v2/models/chat/versions/1"})
    EXPECT_EQ(get(path).status, 200) << path;
  const json model = get("/v2/models/chat").json();
  EXPECT_EQ(model["name"], "chat");
  EXPECT_EQ(model["inputs"][0]["datatype"], "BYTES");
  EXPECT_EQ(get("/v2/models/other/ready").status, 404);
  EXPECT_EQ(get("/v2/models/chat/versions/2").status, 404);
}

TEST_F(ServeTriton, GeneratesAsACompletion) {
  serve();
  const std::string prompt = "the stone", path = "/v2/models/chat/generate";
  // As the examples of TensorRT-LLM's backend have it.
  const json question{{"text_input", prompt}, {"max_tokens", 12}, {"bad_words", ""}, {"stop_words", ""},
                      {"top_k", 1},           {"pad_id", 2},      {"beam_width", 1}, {"stream", false}};
  const std::string text = completed({{"max_tokens", 12}});
  const json answer = ask(path, question);
  EXPECT_EQ(answer, (json{{"model_name", "chat"}, {"model_version", "1"}, {"text_output", prompt + text}}));
  EXPECT_EQ(ask("/v2/models/chat/versions/1/generate", question), answer);
  EXPECT_EQ(post("/v2/models/chat/infer", question).status, 404);
  json alone = question;
  alone["exclude_input_in_output"] = true;
  EXPECT_EQ(ask(path, alone)["text_output"], text);

  // As those of vLLM's backend have it.
  const std::string word = text.substr(3, 4);
  const json within{{"text_input", prompt},
                    {"parameters", {{"temperature", 0}, {"max_tokens", 12}, {"stop", {word}}}}};
  EXPECT_EQ(ask(path, within)["text_output"], prompt + completed({{"max_tokens", 12}, {"stop", word}}));
  const json written{{"text_input", prompt},
                     {"sampling_parameters", R"({"temperature": 0, "max_tokens": 3})"}};
  EXPECT_EQ(ask(path, written)["text_output"], prompt + completed({{"max_tokens", 3}}));
  EXPECT_EQ(ask(path, {{"text_input", prompt}, {"temperature", 0}})["text_output"],
            prompt + completed({{"max_tokens", 16}}));

  const auto refused = [&](const json& more, const json& param, const std::string& words) {
    json body = question;
    body.update(more);
    const HttpAnswer said = post(path, body);
    EXPECT_EQ(said.status, 400) << said.body;
    EXPECT_EQ(said.json()["error"]["param"], param) << said.body;
    EXPECT_THAT(said.body, HasSubstr(words));
  };
  refused({{"text_input", nullptr}}, "text_input", "missing");
  refused({{"stream", true}}, "stream", "/generate_stream");
  refused({{"beam_width", 2}}, "beam_width", "only 1");
  refused({{"stop_words", "b"}, {"stop", "a"}}, "stop", "two names");
  refused({{"max_tokens", 100'000}}, "max_tokens", "8192");
  refused({{"parameters", {{"max_tokens", 2}}}}, "parameters", "given twice");
  refused({{"parameters", {{"temprature", 2}}}}, "temprature", "did you mean 'temperature'");
  refused({{"parameters", {{"parameters", json::object()}}}}, "parameters", "no parameter");
  refused({{"sampling_parameters", "{"}}, nullptr, "sampling_parameters");
}

TEST_F(ServeTriton, StreamsPieces) {
  serve();
  const std::string path = "/v2/models/chat/generate_stream";
  json question{{"text_input", "the stone"}, {"parameters", {{"temperature", 0}, {"max_tokens", 12}}}};
  const std::string expected = completed({{"max_tokens", 12}});
  const auto streamed = [&](std::size_t& events) {
    std::string text;
    events = 0;
    for (const json& event : post(path, question).events()) {
      EXPECT_EQ(event["model_name"], "chat");
      text += event["text_output"].get<std::string>();
      ++events;
    }
    return text;
  };
  std::size_t events = 0;
  EXPECT_EQ(streamed(events), expected);
  EXPECT_GT(events, 2u);
  question["exclude_input_in_output"] = false;
  EXPECT_THAT(post(path, question).body, HasSubstr("must be true in a stream"));
  question["stream"] = false;
  EXPECT_EQ(streamed(events), "the stone" + expected);
  EXPECT_EQ(events, 1u);
}

}  // namespace
}  // namespace stoa::e2e
