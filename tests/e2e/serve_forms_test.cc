// Forms of other servers than completions: responses, filling in the middle, slots, encrypted connections.
#include <gmock/gmock.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/test_paths.h"
#include "served.h"

namespace stoa::e2e {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ServeForms : public Served {
 protected:
  // The text of a chat completion.
  std::string chat_text(const json& body) const {
    return ask("/v1/chat/completions", body)["choices"][0]["message"]["content"];
  }
};

TEST_F(ServeForms, ResponsesAreChatsInItems) {
  serve();
  const json messages = json::array({{{"role", "system"}, {"content", "Be brief."}},
                                     {{"role", "user"}, {"content", "the stone"}},
                                     {{"role", "assistant"}, {"content", "walks"}},
                                     {{"role", "user"}, {"content", "by the river"}}});
  const std::string expected = chat_text({{"messages", messages}, {"max_tokens", 12}, {"temperature", 0}});
  json question{
      {"input",
       json::array({{{"role", "user"}, {"content", "the stone"}},
                    {{"type", "message"},
                     {"role", "assistant"},
                     {"content", json::array({{{"type", "output_text"}, {"text", "walks"}}})}},
                    {{"role", "user"},
                     {"content", json::array({{{"type", "input_text"}, {"text", "by the river"}}})}}})},
      {"instructions", "Be brief."},
      {"max_output_tokens", 12},
      {"temperature", 0},
      {"metadata", {{"a", "b"}}}};
  const json whole = ask("/v1/responses", question);
  EXPECT_EQ(whole["object"], "response");
  EXPECT_EQ(whole["status"], "incomplete");
  EXPECT_EQ(whole["incomplete_details"]["reason"], "max_output_tokens");
  ASSERT_EQ(whole["output"].size(), 1u);
  EXPECT_EQ(whole["output"][0]["role"], "assistant");
  EXPECT_EQ(whole["output"][0]["content"][0]["text"], expected);
  EXPECT_EQ(whole["usage"]["output_tokens"], 12);
  EXPECT_EQ(whole["metadata"], (json{{"a", "b"}}));
  EXPECT_EQ(whole["instructions"], "Be brief.");

  question["stream"] = true;
  const std::vector<json> events = post("/v1/responses", question).events();
  std::string text, types;
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i]["sequence_number"], i);
    const std::string type = events[i]["type"];
    if (type == "response.output_text.delta") text += events[i]["delta"].get<std::string>();
    if (!types.ends_with(type + " ")) types += type + " ";
  }
  EXPECT_EQ(text, expected);
  EXPECT_EQ(types,
            "response.created response.in_progress response.output_item.added response.content_part.added "
            "response.output_text.delta response.output_text.done response.content_part.done "
            "response.output_item.done response.incomplete ");
  EXPECT_EQ(events.back()["response"]["output"][0]["content"], whole["output"][0]["content"]);

  const auto refused = [&](const json& body, const json& param, const std::string& words) {
    const HttpAnswer answer = post("/v1/responses", body);
    EXPECT_EQ(answer.status, 400) << answer.body;
    EXPECT_EQ(answer.json()["error"]["param"], param) << answer.body;
    EXPECT_THAT(answer.body, HasSubstr(words));
  };
  refused({{"input", json::array()}}, "input", "not empty");
  refused({{"input", "a"}, {"max_output_tokens", 100000}}, "max_output_tokens", "8192");
  refused({{"input", "a"}, {"previous_response_id", "resp_1"}}, "previous_response_id", "nothing is stored");
  refused({{"input", "a"}, {"text", {{"type", "json_object"}}}}, "text",
          "'text' has an unknown field 'type'");
  refused({{"input", json::array({{{"type", "image"}}})}}, "input", "'image' is not supported");
  refused({{"input", "a"}, {"tools", json::array({{{"type", "custom"}, {"name", "patch"}}})}}, "tools",
          "'custom' runs on no server here");
}

TEST_F(ServeForms, ResponsesCallTools) {
  serve();
  json question{{"input", "the stone"},
                {"temperature", 0},
                {"tool_choice", "required"},
                {"tools", json::array({{{"type", "function"},
                                        {"name", "find"},
                                        {"parameters",
                                         {{"type", "object"},
                                          {"properties", {{"what", {{"enum", {"sun", "moon"}}}}}},
                                          {"required", {"what"}},
                                          {"additionalProperties", false}}}}})},
                {"parallel_tool_calls", false}};
  const json whole = ask("/v1/responses", question);
  EXPECT_EQ(whole["status"], "completed");
  ASSERT_EQ(whole["output"].size(), 1u) << whole;
  const json call = whole["output"][0];
  EXPECT_EQ(call["type"], "function_call");
  EXPECT_EQ(call["name"], "find");
  EXPECT_TRUE(json::parse(call["arguments"].get<std::string>()).contains("what")) << call;
  question["stream"] = true;
  std::string arguments;
  const std::vector<json> events = post("/v1/responses", question).events();
  for (const json& event : events)
    if (event["type"] == "response.function_call_arguments.delta")
      arguments += event["delta"].get<std::string>();
  EXPECT_EQ(arguments, call["arguments"]);
  EXPECT_EQ(events.back()["type"], "response.completed");
  EXPECT_EQ(events.back()["response"]["output"][0]["arguments"], call["arguments"]);
  // An item ends before the next one begins, and is what the response has.
  question["parallel_tool_calls"] = true;
  question["max_output_tokens"] = 400;
  question["temperature"] = 1;
  std::size_t most = 0;
  for (int seed = 0; seed < 20 && most < 2; ++seed) {
    question["seed"] = seed;
    json items = json::array();
    std::size_t begun = 0;
    const std::vector<json> several = post("/v1/responses", question).events();
    for (const json& event : several) {
      if (event["type"] == "response.output_item.added") {
        EXPECT_EQ(event["output_index"], begun);
        EXPECT_EQ(items.size(), begun++);
      } else if (event["type"] == "response.output_item.done") {
        EXPECT_EQ(event["output_index"], items.size());
        items.push_back(event["item"]);
      }
    }
    EXPECT_EQ(several.back()["response"]["output"], items);
    most = std::max(most, begun);
  }
  EXPECT_GT(most, 1u);
  // The conversation goes on.
  const json next{
      {"input",
       json::array({{{"role", "user"}, {"content", "the stone"}},
                    {{"type", "function_call"},
                     {"call_id", call["call_id"]},
                     {"name", "find"},
                     {"arguments", call["arguments"]}},
                    {{"type", "function_call_output"}, {"call_id", call["call_id"]}, {"output", "here"}}})},
      {"max_output_tokens", 3}};
  EXPECT_EQ(ask("/v1/responses", next)["output"][0]["type"], "message");
}

TEST_F(ServeForms, MessagesCallTools) {
  serve();
  json question{{"max_tokens", 200},
                {"temperature", 0},
                {"system", json::array({{{"type", "text"}, {"text", "Be brief."}}})},
                {"messages", json::array({{{"role", "user"}, {"content", "the stone"}}})},
                {"tool_choice", {{"type", "any"}, {"disable_parallel_tool_use", true}}},
                {"tools", json::array({{{"name", "find"},
                                        {"description", "finds"},
                                        {"input_schema",
                                         {{"type", "object"},
                                          {"properties", {{"what", {{"enum", {"sun", "moon"}}}}}},
                                          {"required", {"what"}},
                                          {"additionalProperties", false}}}}})}};
  const json whole = ask("/v1/messages", question);
  EXPECT_EQ(whole["stop_reason"], "tool_use");
  ASSERT_EQ(whole["content"].size(), 1u) << whole;
  const json call = whole["content"][0];
  EXPECT_EQ(call["type"], "tool_use");
  EXPECT_EQ(call["name"], "find");
  EXPECT_TRUE(call["input"].contains("what")) << call;

  question["stream"] = true;
  std::string input, types;
  const std::vector<json> events = post("/v1/messages", question).events();
  for (const json& event : events) {
    types += event["type"].get<std::string>() + " ";
    if (event["type"] == "content_block_delta") input += event["delta"]["partial_json"].get<std::string>();
    if (event["type"] == "message_delta") {
      EXPECT_EQ(event["delta"]["stop_reason"], "tool_use");
    }
  }
  EXPECT_EQ(json::parse(input), call["input"]);
  EXPECT_TRUE(types.starts_with("message_start content_block_start content_block_delta ")) << types;
  EXPECT_TRUE(types.ends_with("content_block_delta content_block_stop message_delta message_stop ")) << types;

  // A text is one block.
  question["tool_choice"] = {{"type", "none"}};
  question["max_tokens"] = 6;
  std::size_t begun = 0, ended = 0;
  for (const json& event : post("/v1/messages", question).events()) {
    begun += event["type"] == "content_block_start";
    ended += event["type"] == "content_block_stop";
  }
  EXPECT_EQ(begun, 1u);
  EXPECT_EQ(ended, 1u);

  question.erase("stream");
  json formed = question;
  formed.erase("tools");
  formed.erase("tool_choice");
  formed["max_tokens"] = 60;
  formed["output_config"] = {{"format", {{"type", "json_schema"}, {"schema", {{"enum", {"sun", "moon"}}}}}}};
  const std::string word = ask("/v1/messages", formed)["content"][0]["text"];
  EXPECT_TRUE(word == "\"sun\"" || word == "\"moon\"") << word;
  formed["max_tokens"] = 1'000'000;  // more than the context holds
  EXPECT_EQ(ask("/v1/messages", formed)["content"][0]["text"], word);

  // The conversation goes on, as it does in a chat.
  question["messages"].push_back(
      {{"role", "assistant"},
       {"content", json::array({{{"type", "thinking"}, {"thinking", "hm"}, {"signature", "x"}}, call})}});
  question["messages"].push_back(
      {{"role", "user"},
       {"content", json::array({{{"type", "tool_result"}, {"tool_use_id", call["id"]}, {"content", "here"}},
                                {{"type", "text"}, {"text", "the moon"}}})}});
  const json chat{
      {"max_tokens", 6},
      {"temperature", 0},
      {"messages",
       json::array(
           {{{"role", "system"}, {"content", "Be brief."}},
            {{"role", "user"}, {"content", "the stone"}},
            {{"role", "assistant"},
             {"content", nullptr},
             {"tool_calls",
              json::array({{{"id", call["id"]},
                            {"type", "function"},
                            {"function", {{"name", "find"}, {"arguments", call["input"].dump()}}}}})}},
            {{"role", "tool"}, {"tool_call_id", call["id"]}, {"content", "here"}},
            {{"role", "user"}, {"content", "the moon"}}})}};
  EXPECT_EQ(ask("/v1/messages", question)["content"][0]["text"], chat_text(chat));

  const auto refused = [&](const json& changes, const std::string& param, const std::string& words) {
    json body = question;
    body.update(changes);
    const HttpAnswer answer = post("/v1/messages", body);
    EXPECT_EQ(answer.status, 400) << answer.body;
    EXPECT_EQ(answer.json()["type"], "error") << answer.body;
    EXPECT_EQ(answer.json()["error"]["param"], param) << answer.body;
    EXPECT_THAT(answer.json()["error"]["message"].get<std::string>(), HasSubstr(words));
  };
  refused({{"tools", json::array({{{"type", "web_search_20250305"}, {"name", "web_search"}}})}}, "tools",
          "'web_search_20250305' runs on no server here");
  refused({{"tool_choice", {{"type", "all"}}}}, "tool_choice", "auto, any, none");
  refused({{"messages", json::array({{{"role", "user"}, {"content", json::array({{{"type", "image"}}})}}})}},
          "messages", "'image' is not supported");
  refused({{"stop_sequences", {""}}}, "stop_sequences", "'stop_sequences'");
  const json alike{{"type", "array"}, {"uniqueItems", true}};
  refused({{"tools", json::array()},
           {"output_config", {{"format", {{"type", "json_schema"}, {"schema", alike}}}}}},
          "output_config", "'output_config'");
}

// As the beginning of the answer, which the client gives.
TEST_F(ServeForms, TheLastMessageIsContinued) {
  serve();
  json messages = json::array({{{"role", "user"}, {"content", "the stone"}}});
  const std::string begun = "walks by";
  const json ids = ask("/tokenize", {{"messages", messages}});
  const std::string asked = ask("/detokenize", {{"tokens", ids["tokens"]}})["prompt"];
  const json whole =
      ask("/v1/completions",
          {{"prompt", asked + begun}, {"add_special_tokens", false}, {"max_tokens", 12}, {"temperature", 0}});
  const std::string expected = whole["choices"][0]["text"];
  EXPECT_EQ(ask("/v1/messages/count_tokens", {{"messages", messages}})["input_tokens"], ids["count"]);

  messages.push_back({{"role", "assistant"}, {"content", begun}});
  json body{{"messages", messages}, {"max_tokens", 12}, {"temperature", 0}, {"continue_final_message", true}};
  EXPECT_EQ(chat_text(body), expected);
  body["add_generation_prompt"] = false;
  EXPECT_EQ(chat_text(body), expected);
  json twice = body;
  twice["chat_template_kwargs"] = {{"add_generation_prompt", true}};
  EXPECT_EQ(post("/v1/chat/completions", twice).json()["error"]["param"], "chat_template_kwargs");
  body["add_generation_prompt"] = true;
  EXPECT_EQ(post("/v1/chat/completions", body).json()["error"]["param"], "continue_final_message");
  EXPECT_EQ(ask("/v1/messages",
                {{"messages", messages}, {"max_tokens", 12}, {"temperature", 0}})["content"][0]["text"],
            expected);
  EXPECT_EQ(ask("/v1/messages/count_tokens", {{"messages", messages}})["input_tokens"],
            whole["usage"]["prompt_tokens"]);
  messages.push_back({{"role", "user"}, {"content", "on"}});
  const json refused{{"messages", messages}, {"continue_final_message", true}};
  EXPECT_THAT(post("/v1/chat/completions", refused).body, HasSubstr("a message of the assistant"));
}

TEST_F(ServeForms, TheMiddleIsFilledIn) {
  Arguments tokenizer{"tokenizer", "train", "text.jsonl", "--vocab-size", "300", "--output", "fim"};
  for (const char* token : {"<|endoftext|>", "<fim_prefix>", "<fim_suffix>", "<fim_middle>"})
    tokenizer = tokenizer + Arguments{"--special", token};
  stoa_ok(tokenizer);
  stoa_ok({"data", "prepare", "text.jsonl", "--tokenizer", "fim", "--output", "filled"});
  stoa_ok(train("filler", {"model.tokenizer=fim", "model.data=filled", "trainer.max_steps=3"}));
  serve({"filler"});
  EXPECT_EQ(post("/infill", {{"model", "chat"}, {"input_prefix", "a"}}).json()["error"]["param"], "model");
  const std::vector<int> ids{1, 2, 3};
  const auto encoded = [&](const std::string& text) {
    return ask("/tokenize", {{"model", "filler"}, {"prompt", text}, {"add_special_tokens", false}})["tokens"]
        .get<std::vector<int>>();
  };
  std::vector<int> prompt{ids[0]};
  for (const auto& [text, token] : {std::pair{std::string("the stone "), ids[1]}, {" river", ids[2]}}) {
    for (const int id : encoded(text)) prompt.push_back(id);
    prompt.push_back(token);
  }
  const std::string expected = ask("/v1/completions", {{"model", "filler"},
                                                       {"prompt", prompt},
                                                       {"max_tokens", 10},
                                                       {"temperature", 0}})["choices"][0]["text"];
  EXPECT_EQ(ask("/v1/completions", {{"model", "filler"},
                                    {"prompt", "the stone "},
                                    {"suffix", " river"},
                                    {"max_tokens", 10},
                                    {"temperature", 0}})["choices"][0]["text"],
            expected);
  // The text that is read begins with neither prompt nor answer then.
  for (const auto& [field, value] : {std::pair{"echo", json(true)}, {"truncate_prompt_tokens", json(4)}}) {
    const json both{{"model", "filler"}, {"prompt", "the "}, {"suffix", " river"}, {field, value}};
    EXPECT_EQ(post("/v1/completions", both).json()["error"]["param"], field);
  }
  json request{{"model", "filler"},        {"input_prefix", "the "}, {"prompt", "stone "},
               {"input_suffix", " river"}, {"n_predict", 10},        {"temperature", 0}};
  const json filled = ask("/infill", request);
  EXPECT_EQ(filled["content"], expected);
  EXPECT_EQ(filled["stop_type"], "limit");
  EXPECT_EQ(filled["tokens_evaluated"], prompt.size());
  request["stream"] = true;
  std::string text;
  for (const json& event : post("/infill", request).events()) text += event["content"].get<std::string>();
  EXPECT_EQ(text, expected);
  request["input_extra"] = json::array({{{"filename", "a.c"}, {"text", "int a;"}}});
  EXPECT_EQ(post("/infill", request).json()["error"]["param"], "input_extra");

  // As llama.vim and llama.vscode ask, and as they have a prompt read before it is needed.
  const json edited =
      ask("/infill", {{"model", "filler"},
                      {"input_prefix", "the "},
                      {"input_suffix", " river"},
                      {"input_extra", json::array()},
                      {"prompt", "stone "},
                      {"n_predict", 10},
                      {"n_indent", 0},
                      {"stop", json::array()},
                      {"top_k", 1},
                      {"top_p", 0.9},
                      {"samplers", {"top_k", "top_p", "infill"}},
                      {"stream", false},
                      {"cache_prompt", true},
                      {"t_max_prompt_ms", 500},
                      {"t_max_predict_ms", 60000},
                      {"response_fields", {"content", "timings/prompt_n", "truncated", "none/such"}}});
  EXPECT_EQ(edited["content"], expected);
  EXPECT_TRUE(edited["timings/prompt_n"].is_number());
  EXPECT_EQ(edited.size(), 3u) << edited;
  EXPECT_EQ(ask("/infill", {{"model", "filler"},
                            {"input_prefix", ""},
                            {"input_suffix", ""},
                            {"prompt", ""},
                            {"n_predict", 0},
                            {"temperature", 0.0},
                            {"samplers", json::array()},
                            {"t_max_prompt_ms", 1},
                            {"t_max_predict_ms", 1},
                            {"response_fields", {""}}}),
            json::object());
}

// A sampler that the list leaves out is off.
TEST_F(ServeForms, SamplersOfLlamaServerAreChosenByName) {
  serve();
  json request{{"prompt", "the stone"},
               {"n_predict", 4},
               {"temperature", 0},
               {"top_k", 5},
               {"top_p", 0.5},
               {"min_p", 0.1},
               {"repeat_penalty", 1.5},
               {"presence_penalty", 1},
               {"samplers", {"top_k", "temperature"}}};
  json settings = ask("/completion", request)["generation_settings"];
  EXPECT_EQ(settings["top_k"], 5);
  EXPECT_EQ(settings["temperature"], 0);
  EXPECT_EQ(settings["top_p"], 1);
  EXPECT_EQ(settings["min_p"], 0);
  EXPECT_EQ(settings["repeat_penalty"], 1);
  EXPECT_EQ(settings["presence_penalty"], 0);
  request["samplers"] = {"penalties", "dry", "top_p", "xtc", "infill"};
  settings = ask("/completion", request)["generation_settings"];
  EXPECT_EQ(settings["top_k"], 0);
  EXPECT_EQ(settings["temperature"], 1);
  EXPECT_EQ(settings["top_p"], 0.5);
  EXPECT_EQ(settings["repeat_penalty"], 1.5);
  for (const auto& [samplers, message] : {std::pair{json{"temperature", "top_k"}, "'top_k' comes too late"},
                                          {json{"topk"}, "unknown sampler 'topk'"},
                                          {json("kt"), "a list of names"}}) {
    request["samplers"] = samplers;
    EXPECT_THAT(post("/completion", request).body, HasSubstr(message));
  }
  request["samplers"] = nullptr;
  request["sampler_order"] = "hf";
  request["samplers"] = {"top_k"};
  EXPECT_THAT(post("/completion", request).body, HasSubstr("of the sampler_order llama.cpp"));
}

// llama-server's own form.
TEST_F(ServeForms, PromptsAreContinuedAsByLlamaServer) {
  serve();
  const json plain = ask("/v1/completions",
                         {{"prompt", "the stone"}, {"max_tokens", 8}, {"temperature", 0}, {"logprobs", 2}});
  const std::string expected = plain["choices"][0]["text"];
  json request{{"prompt", "the stone"}, {"n_predict", 8},        {"temperature", 0}, {"cache_prompt", true},
               {"n_probs", 2},          {"return_tokens", true}, {"seed", -1}};
  const json whole = ask("/completion", request);
  EXPECT_EQ(whole["content"], expected);
  EXPECT_EQ(whole["stop"], true);
  EXPECT_EQ(whole["stop_type"], "limit");
  EXPECT_EQ(whole["stopping_word"], "");
  EXPECT_EQ(whole["tokens_predicted"], 8);
  EXPECT_EQ(whole["tokens_evaluated"], plain["usage"]["prompt_tokens"]);
  EXPECT_EQ(ask("/detokenize", {{"tokens", whole["tokens"]}})["content"], expected);
  EXPECT_EQ(whole["generation_settings"]["n_predict"], 8);
  EXPECT_EQ(whole["generation_settings"]["temperature"], 0);
  EXPECT_EQ(whole["timings"]["predicted_n"], 8);
  EXPECT_GT(whole["timings"]["prompt_ms"], 0);
  const json& scores = whole["completion_probabilities"];
  ASSERT_EQ(scores.size(), 8u);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    EXPECT_EQ(scores[i]["logprob"], plain["choices"][0]["logprobs"]["token_logprobs"][i]);
    EXPECT_EQ(scores[i]["id"], whole["tokens"][i]);
    EXPECT_EQ(scores[i]["top_logprobs"].size(), 2u);
    EXPECT_EQ(scores[i]["top_logprobs"][0]["id"], whole["tokens"][i]);
  }

  // Ids, ids and texts mixed, an object, and several prompts, whose answers are a list.
  const json ids = ask("/tokenize", {{"prompt", "the stone"}})["tokens"];
  json mixed = ids;
  mixed.erase(0);
  mixed.insert(mixed.begin(), ask("/detokenize", {{"tokens", {ids[0]}}})["content"]);
  for (const json& prompt : {ids, mixed, json{{"prompt_string", "the stone"}}}) {
    request["prompt"] = prompt;
    const json again = ask("/completion", request);
    EXPECT_EQ(again["content"], expected) << prompt;
    EXPECT_EQ(again["prompt"], whole["prompt"]) << prompt;
  }
  request["prompt"] = {"the stone", ids, "a door"};
  const json several = ask("/completion", request);
  ASSERT_EQ(several.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(several[i]["index"], i);
  EXPECT_EQ(several[0]["content"], expected);
  EXPECT_EQ(several[1]["content"], expected);
  EXPECT_GT(several[1]["tokens_evaluated"], 0);

  // A stream has the same text, ids and probabilities, and ends with what the whole says.
  request["prompt"] = "the stone";
  request["stream"] = true;
  std::string text;
  json tokens = json::array(), streamed = json::array();
  const std::vector<json> events = post("/completion", request).events();
  for (const json& event : events) {
    EXPECT_EQ(event["stop"], &event == &events.back());
    text += event["content"].get<std::string>();
    for (const json& id : event["tokens"]) tokens.push_back(id);
    for (const json& score : event.value("completion_probabilities", json::array()))
      streamed.push_back(score);
  }
  EXPECT_EQ(text, expected);
  EXPECT_EQ(tokens, whole["tokens"]);
  EXPECT_EQ(streamed, scores);
  EXPECT_EQ(events.back()["stop_type"], "limit");
  EXPECT_EQ(events.back()["generation_settings"]["stream"], true);

  // What ends it, and what it must be.
  const std::string word = expected.substr(expected.size() / 2, 3);
  const json stopped =
      ask("/completion", {{"prompt", "the stone"}, {"n_predict", 8}, {"temperature", 0}, {"stop", {word}}});
  EXPECT_EQ(stopped["content"], expected.substr(0, expected.find(word)));
  EXPECT_EQ(stopped["stop_type"], "word");
  EXPECT_EQ(stopped["stopping_word"], word);
  const json formed =
      ask("/completion", {{"prompt", "the stone"}, {"grammar", "root ::= \"sun\" | \"moon\""}});
  EXPECT_TRUE(formed["content"] == "sun" || formed["content"] == "moon") << formed;
  EXPECT_EQ(formed["stop_type"], "eos");
  const json none = ask("/completion", {{"prompt", "the stone"}, {"n_predict", 0}});
  EXPECT_EQ(none["content"], "");
  EXPECT_EQ(none["tokens_predicted"], 0);

  // A token that must not come, a seed, and penalties over the last tokens.
  const json first = whole["tokens"][0];
  const auto start = [&](const json& more) {
    json body{{"prompt", "the stone"}, {"n_predict", 1}, {"temperature", 0}, {"return_tokens", true}};
    body.update(more);
    return ask("/completion", body)["tokens"][0];
  };
  EXPECT_EQ(start(json::object()), first);
  EXPECT_NE(start({{"logit_bias", json::array({json::array({first, false})})}}), first);
  EXPECT_EQ(start({{"logit_bias", json::array({json::array({ids[0], 100})})}}), ids[0]);
  const json drawn{{"prompt", "the stone"}, {"n_predict", 8}, {"seed", 5}};
  EXPECT_EQ(ask("/completion", drawn)["content"], ask("/completion", drawn)["content"]);
  json by_chance{{"prompt", "the stone"}, {"n_predict", 1}, {"temperature", 1}};
  for (const std::int64_t seed : {std::int64_t{-1}, std::int64_t{4294967295}}) {
    by_chance["seed"] = seed;
    const auto seed_used = [&] { return ask("/completion", by_chance)["generation_settings"]["seed"]; };
    EXPECT_NE(seed_used(), seed_used());
  }
  json punished{{"prompt", ids},
                {"n_predict", 1},
                {"temperature", 0},
                {"return_tokens", true},
                {"repeat_penalty", 1000}};
  punished["logit_bias"] = json::array({json::array({ids[0], 100})});
  EXPECT_NE(start(punished), ids[0]);
  punished["repeat_last_n"] = 0;
  EXPECT_EQ(start(punished), ids[0]);

  const auto refused = [&](const json& body, const std::string& param, const std::string& words) {
    const HttpAnswer answer = post("/completion", body);
    EXPECT_EQ(answer.status, 400) << answer.body;
    EXPECT_EQ(answer.json()["error"]["param"], param) << answer.body;
    EXPECT_THAT(answer.body, HasSubstr(words));
  };
  refused({{"n_predict", 3}}, "prompt", "is missing");
  refused({{"prompt", json::array()}}, "prompt", "a list of 1 to 1024");
  refused({{"prompt", {1, true}}}, "prompt", "found");
  refused({{"prompt", {{"prompt_string", "a"}, {"multimodal_data", {"AA"}}}}}, "prompt",
          "'multimodal_data' is not supported");
  refused({{"prompt", "a"}, {"n_predict", 100000}}, "n_predict", "8192");
  refused({{"prompt", "a"}, {"mirostat", 2}}, "mirostat", "not supported");
  refused({{"prompt", "a"}, {"repeat_penalty", 1.1}, {"repetition_penalty", 1.1}}, "repeat_penalty",
          "names of the same");
  refused({{"prompt", "a"}, {"repeat_last_n", 8}, {"sampler_order", "hf"}}, "repeat_last_n", "llama.cpp");
  refused({{"prompt", "a"}, {"logit_bias", json::array({json::array({1})})}}, "logit_bias", "a pair");
}

TEST_F(ServeForms, SlotsSayWhoIsAtWork) {
  serve();
  const json slots = get("/slots").json();
  ASSERT_EQ(slots.size(), 32u);
  EXPECT_EQ(slots[31]["id"], 31);
  EXPECT_EQ(slots[0]["n_ctx"], 8192);
  EXPECT_EQ(slots[0]["is_processing"], false);
}

TEST_F(ServeForms, ConnectionsAreEncrypted) {
  const fs::path files = test::source_dir() / "tests/fixtures/tls";
  const auto file = [&](const char* name) { return (files / name).string(); };
  serve({"--ssl-certfile", file("certificate.pem"), "--ssl-keyfile", file("key.pem")});
  EXPECT_THAT(read_text(path("said.txt")), HasSubstr("listening on https://127.0.0.1:"));
  const auto curl = [&](const Arguments& more) {
    ProgramOptions options;
    options.directory = directory();
    options.program = "/usr/bin/curl";
    return Program(Arguments{"-sS", "--max-time", "60"} + more, options).wait();
  };
  const Arguments trusted{"--cacert", file("certificate.pem")};
  const std::string url = "https://localhost:" + std::to_string(port());
  // Two requests over one connection, then a stream.
  const Outcome models = curl(trusted + Arguments{url + "/v1/models", url + "/health"});
  EXPECT_EQ(models.exit_code, 0) << models.text();
  EXPECT_THAT(models.out, HasSubstr("\"id\":\"chat\""));
  EXPECT_THAT(models.out, HasSubstr("\"status\":\"ok\""));
  write_text(path("question.json"), R"({"prompt": "the stone", "max_tokens": 5, "stream": true})");
  const Outcome stream =
      curl(trusted + Arguments{"--data", "@question.json", "-H", "Content-Type: application/json", "-H",
                               "Connection: close", url + "/v1/completions"});
  EXPECT_EQ(stream.exit_code, 0) << stream.text();
  EXPECT_TRUE(stream.out.ends_with("data: [DONE]\n\n")) << stream.text();
  EXPECT_EQ(curl({url + "/health"}).exit_code, 60);  // a certificate of nobody known
  EXPECT_NE(curl(trusted + Arguments{"--tls-max", "1.1", url + "/health"}).exit_code, 0);
  EXPECT_NE(curl({"http://127.0.0.1:" + std::to_string(port()) + "/health"}).exit_code, 0);
  EXPECT_EQ(curl(trusted + Arguments{url + "/health"}).exit_code, 0);  // it still answers
  server().signal(SIGTERM);
  EXPECT_EQ(server().wait().exit_code, 0);

  const auto refused = [&](const Arguments& more, int code, const std::string& words) {
    const Outcome outcome = stoa(Arguments{"serve", "chat", "--port", "0"} + more);
    EXPECT_EQ(outcome.exit_code, code) << outcome.text();
    EXPECT_THAT(outcome.err, HasSubstr(words));
  };
  refused({"--ssl-certfile", file("certificate.pem"), "--ssl-keyfile", file("other_key.pem")}, 1, "belong");
  refused({"--ssl-certfile", file("key.pem"), "--ssl-keyfile", file("key.pem")}, 1, "no certificate");
  refused({"--ssl-certfile", "nothing.pem", "--ssl-keyfile", file("key.pem")}, 1,
          "cannot read 'nothing.pem'");
  refused({"--ssl-certfile", file("certificate.pem")}, 2, "--ssl-keyfile");
}

// tests/slow/openapi.sh has schemathesis try it.
TEST_F(ServeForms, TheInterfaceIsDescribed) {
  serve();
  const json document = get("/openapi.json").json();
  EXPECT_EQ(document["openapi"], "3.1.0");
  for (const char* route : {"/v1/responses", "/v1/chat/completions", "/completion", "/infill", "/generate",
                            "/slots", "/v1/models/{model}"})
    EXPECT_TRUE(document["paths"].contains(route)) << route;
  EXPECT_TRUE(document["paths"]["/generate"].contains("put"));
  // A field that is not used is checked all the same.
  EXPECT_EQ(post("/tokenize", {{"prompt", "a"}, {"add_generation_prompt", json::array()}}).status, 400);
  for (const auto& [route, methods] : document["paths"].items())
    if (methods.contains("get") && route.find('{') == std::string::npos) {
      EXPECT_EQ(get(route).status, 200) << route;
    }
}

}  // namespace
}  // namespace stoa::e2e
