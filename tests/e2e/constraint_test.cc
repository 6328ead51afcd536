// Answers that must have a form: JSON, schemas, expressions, grammars, choices, calls of tools.
#include <gmock/gmock.h>

#include <regex>

#include "base/file.h"
#include "served.h"

namespace stoa::e2e {
namespace {

using nlohmann::json;
using ::testing::AnyOf;
using ::testing::HasSubstr;

const json kPerson =
    json::parse(R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 12},
    "age": {"type": "integer", "minimum": 0, "maximum": 120}}, "required": ["name", "age"], "additionalProperties": false})");

void expect_person(const json& person) {
  EXPECT_EQ(person.size(), 2u) << person;
  EXPECT_LE(person["name"].get<std::string>().size(), 48u);
  EXPECT_TRUE(person["age"].is_number_integer() && person["age"] >= 0 && person["age"] <= 120) << person;
}

class Constraints : public Served {
 protected:
  std::string generated(const Arguments& more) const {
    return json_of(Arguments{"generate", "chat", "--prompt", "the stone", "--max-tokens", "200", "--seed",
                             "3", "--temperature", "2", "--json", "--threads", "1", "--dtype", "fp32"} +
                   more)["text"];
  }
};

TEST_F(Constraints, OfGenerateAndChat) {
  write_text(path("person.json"), kPerson.dump());
  write_text(path("list.gbnf"), "root ::= \"- \" item (\"\\n- \" item){2}\nitem ::= [a-z]{3,8}\n");
  expect_person(json::parse(generated({"--json-schema", "person.json"})));
  EXPECT_TRUE(std::regex_match(generated({"--regex", "(\\d{2}:){2}[ap]m"}), std::regex("(\\d{2}:){2}[ap]m")));
  EXPECT_TRUE(
      std::regex_match(generated({"--grammar", "list.gbnf"}), std::regex("- [a-z]{3,8}(\n- [a-z]{3,8}){2}")));
  EXPECT_THAT(generated({"--choice", "stone,bread"}), AnyOf("stone", "bread"));
  const std::string object = json_of({"generate", "chat", "--prompt", "the stone", "--max-tokens", "40",
                                      "--greedy", "--json-object", "--json", "--threads", "1"})["text"];
  EXPECT_TRUE(object.starts_with("{")) << object;

  ProgramOptions input;
  write_text(path("turns.txt"), "the stone\nbread\n");
  input.input = path("turns.txt");
  const Outcome said = stoa({"chat", "chat", "--json", "--choice", "yes,no", "--threads", "1"}, input);
  EXPECT_EQ(said.exit_code, 0) << said.err;
  std::istringstream lines(said.out);
  int answers = 0;
  for (std::string line; std::getline(lines, line); ++answers)
    EXPECT_THAT(json::parse(line)["text"].get<std::string>(), AnyOf("yes", "no"));
  EXPECT_EQ(answers, 2);
}

TEST_F(Constraints, MistakesOfTheCommandLineAreNamed) {
  write_text(path("bad.json"), R"({"type": "object", "properties": {"a": {"format": "regex"}}})");
  write_text(path("bad.gbnf"), "root ::= itm\nitem ::= \"a\"\n");
  const auto refused = [&](const Arguments& more) {
    const Outcome outcome = stoa(Arguments{"generate", "chat", "--prompt", "a"} + more);
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  };
  EXPECT_THAT(refused({"--json-schema", "bad.json"}),
              AllOf(HasSubstr("--json-schema bad.json"), HasSubstr("/properties/a"), HasSubstr("'format'")));
  EXPECT_THAT(refused({"--json-schema", "none.json"}), HasSubstr("none.json"));
  EXPECT_THAT(refused({"--grammar", "bad.gbnf"}), HasSubstr("did you mean 'item'?"));
  EXPECT_THAT(refused({"--regex", "(a"}), AllOf(HasSubstr("--regex"), HasSubstr("')' was expected")));
  EXPECT_THAT(refused({"--regex", "a", "--choice", "b"}), HasSubstr("excludes"));
}

TEST_F(Constraints, OfRequestsInEveryForm) {
  serve();
  const auto completed = [&](json more) {
    more.update({{"prompt", "the stone"}, {"max_tokens", 200}, {"temperature", 2}, {"seed", 5}});
    const json choice = ask("/v1/completions", more)["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "stop") << choice;
    return choice["text"].get<std::string>();
  };
  const json format{{"type", "json_schema"},
                    {"json_schema", {{"name", "person"}, {"strict", true}, {"schema", kPerson}}}};
  const std::string person = completed({{"response_format", format}});
  expect_person(json::parse(person));
  // One constraint, however it is given.
  EXPECT_EQ(completed({{"response_format", {{"type", "json_object"}, {"schema", kPerson}}}}), person);
  EXPECT_EQ(completed({{"json_schema", kPerson}}), person);
  EXPECT_EQ(completed({{"guided_json", kPerson}}), person);
  EXPECT_EQ(completed({{"guided_json", kPerson.dump()}}), person);
  EXPECT_EQ(completed({{"structured_outputs", {{"json", kPerson}}}}), person);
  const std::string digits = completed({{"guided_regex", "[0-9]{3,5}x"}});
  EXPECT_TRUE(std::regex_match(digits, std::regex("[0-9]{3,5}x"))) << digits;
  EXPECT_EQ(completed({{"structured_outputs", {{"regex", "[0-9]{3,5}x"}}}}), digits);
  const json choices{"walks", "sleeps"};
  EXPECT_THAT(completed({{"guided_choice", choices}}), AnyOf("walks", "sleeps"));
  EXPECT_EQ(completed({{"structured_outputs", {{"choice", choices}}}}),
            completed({{"guided_choice", choices}}));
  const std::string grammar = "root ::= [0-9]{3,5} \"x\"";
  EXPECT_EQ(completed({{"grammar", grammar}}), digits);
  EXPECT_EQ(completed({{"guided_grammar", grammar}}), digits);
  EXPECT_EQ(completed({{"structured_outputs", {{"grammar", grammar}}}}), digits);

  // Chats, several choices, streams.
  json chat{{"messages", json::array({{{"role", "user"}, {"content", "the stone"}}})},
            {"max_tokens", 200},
            {"temperature", 2},
            {"seed", 5},
            {"n", 3},
            {"response_format", format}};
  const json answer = ask("/v1/chat/completions", chat);
  for (const json& choice : answer["choices"])
    expect_person(json::parse(choice["message"]["content"].get<std::string>()));
  chat["stream"] = true;
  std::map<int, std::string> streamed;
  for (const json& event : post("/v1/chat/completions", chat).events())
    for (const json& choice : event["choices"])
      streamed[choice["index"]] += choice["delta"].value("content", "");
  for (const json& choice : answer["choices"])
    EXPECT_EQ(streamed[choice["index"]], choice["message"]["content"]);

  // The tokens end before the object does.
  const json cut = ask("/v1/completions", {{"prompt", "a"}, {"max_tokens", 3}, {"json_schema", kPerson}});
  EXPECT_EQ(cut["choices"][0]["finish_reason"], "length");
}

TEST_F(Constraints, BadOnesAreOneClear400) {
  serve();
  const auto refused = [&](json more, const std::string& param, const std::string& words) {
    more["prompt"] = "a";
    const HttpAnswer answer = post("/v1/completions", more);
    EXPECT_EQ(answer.status, 400) << answer.body;
    EXPECT_EQ(answer.json()["error"]["param"], param) << answer.body;
    EXPECT_THAT(answer.json()["error"]["message"].get<std::string>(), HasSubstr(words));
  };
  const json bad = json::parse(R"({"type": "object", "properties": {"a": {"format": "regex"}}})");
  refused({{"json_schema", bad}}, "json_schema", "/properties/a");
  refused({{"json_schema", bad}}, "json_schema", "'format'");
  refused({{"response_format", {{"type", "json_schema"}, {"json_schema", {{"schema", bad}}}}}},
          "response_format", "/properties/a");
  refused({{"response_format", {{"type", "json_schema"}}}}, "response_format", "schema");
  refused({{"response_format", {{"type", "json_objekt"}}}}, "response_format", "did you mean 'json_object'?");
  refused({{"guided_regex", "ab(c"}}, "guided_regex", "')' was expected");
  refused({{"grammar", "root := \"a\""}}, "grammar", "line 1, character 6");
  refused({{"grammar", "root ::= \"a\""}, {"guided_regex", "a"}}, "grammar", "'guided_regex' and 'grammar'");
  refused({{"structured_outputs", {{"jsn", true}}}}, "structured_outputs", "did you mean 'json'?");
  refused({{"structured_outputs", {{"jsn", nullptr}}}}, "structured_outputs", "did you mean 'json'?");
  refused({{"guided_regex", "(a|b)*a(a|b){60}"}}, "guided_regex", "the constraint is too");
}

TEST_F(Constraints, CallsThatAreForcedFitTheirSchemas) {
  serve();
  json request{{"messages", json::array({{{"role", "user"}, {"content", "the stone"}}})},
               {"max_tokens", 400},
               {"temperature", 2},
               {"seed", 7},
               {"tool_choice", "required"}};
  request["tools"] = json::array(
      {{{"type", "function"}, {"function", {{"name", "greet"}, {"parameters", kPerson}}}},
       {{"type", "function"},
        {"function",
         {{"name", "now"}, {"parameters", {{"type", "object"}, {"properties", json::object()}}}}}}});
  request["tool_choice"] = {{"type", "function"}, {"function", {{"name", "greet"}}}};
  const json whole = ask("/v1/chat/completions", request), answer = whole["choices"][0];
  EXPECT_EQ(answer["finish_reason"], "tool_calls");
  EXPECT_EQ(answer["message"]["content"], nullptr);
  ASSERT_EQ(answer["message"]["tool_calls"].size(), 1u) << answer;
  const json call = answer["message"]["tool_calls"][0]["function"];
  EXPECT_EQ(call["name"], "greet");
  expect_person(json::parse(call["arguments"].get<std::string>()));

  json streamed = request;
  streamed["stream"] = true;
  std::string name, arguments;
  int pieces = 0;
  for (const json& event : post("/v1/chat/completions", streamed).events())
    for (const json& delta : event["choices"][0]["delta"].value("tool_calls", json::array())) {
      name += delta["function"].value("name", "");
      ++pieces;
      arguments += delta["function"].value("arguments", "");
    }
  EXPECT_EQ(name, "greet");
  EXPECT_EQ(arguments, call["arguments"]);
  EXPECT_GT(pieces, 5);  // arguments come as they are written

  // A call that is cut off is given as far as it goes.
  json cut = request;
  cut["max_tokens"] = whole["usage"]["completion_tokens"].get<int>() - 18;
  const json part = ask("/v1/chat/completions", cut)["choices"][0];
  EXPECT_EQ(part["finish_reason"], "length");
  ASSERT_EQ(part["message"]["tool_calls"].size(), 1u) << part;
  std::string begun = part["message"]["tool_calls"][0]["function"]["arguments"];
  while (begun.ends_with("\uFFFD")) begun.resize(begun.size() - 3);  // of a character that was cut
  EXPECT_TRUE(arguments.starts_with(begun)) << begun << "\n" << arguments;

  request["tool_choice"] = "required";
  for (int seed = 0; seed < 3; ++seed) {
    request["seed"] = seed;
    request["parallel_tool_calls"] = false;
    const json one = ask("/v1/chat/completions", request)["choices"][0]["message"];
    ASSERT_EQ(one["tool_calls"].size(), 1u);
    EXPECT_THAT(one["tool_calls"][0]["function"]["name"].get<std::string>(), AnyOf("greet", "now"));
  }
  const auto refused = [&](const json& more, const std::string& param, const std::string& words) {
    json other = request;
    other.update(more);
    const HttpAnswer bad = post("/v1/chat/completions", other);
    EXPECT_EQ(bad.status, 400) << bad.body;
    EXPECT_EQ(bad.json()["error"]["param"], param) << bad.body;
    EXPECT_THAT(bad.json()["error"]["message"].get<std::string>(), HasSubstr(words));
  };
  refused({{"tool_choice", {{"type", "function"}, {"function", {{"name", "gret"}}}}}}, "tool_choice",
          "did you mean 'greet'?");
  refused({{"tool_choice", "always"}}, "tool_choice", "\"required\"");
  refused({{"tools", json::array()}}, "tool_choice", "'tools' is empty");
  refused({{"guided_regex", "a"}}, "guided_regex", "exclude each other");
  json tools = request["tools"];
  tools[0]["function"]["parameters"]["properties"]["name"]["format"] = "regex";
  refused({{"tools", tools}}, "tools", "the parameters of 'greet'");
}

TEST_F(Constraints, BadWordsNeverCome) {
  serve();
  json request{{"prompt", "the stone"}, {"temperature", 0}, {"guided_choice", {"a", "b"}}};
  const std::string first = ask("/v1/completions", request)["choices"][0]["text"];
  request["bad_words"] = json::array({first});
  EXPECT_EQ(ask("/v1/completions", request)["choices"][0]["text"], first == "a" ? "b" : "a");
  // The constraint and the words leave nothing: an error, and no other text.
  request["bad_words"] = json::array({"a", "b"});
  EXPECT_EQ(post("/v1/completions", request).status, 500);
}

}  // namespace
}  // namespace stoa::e2e
