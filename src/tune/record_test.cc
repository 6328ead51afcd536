#include "tune/record.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_paths.h"
#include "tune/record_file.h"

namespace stoa::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Place kRecordPlace{"chats.jsonl", 3};

Record read(std::string_view json, bool roles = true) {
  const Json object = parse_json(json, kRecordPlace);
  return read_record(object, form_of(object, kRecordPlace), kRecordPlace, {roles});
}

// "user: Hi | assistant*: Ho": trained messages are starred.
std::string turns(const Answered& text) {
  std::string out;
  if (const auto* plain = std::get_if<Continuation>(&text)) return plain->prompt + " -> " + plain->answer;
  const auto& chat = std::get<Conversation>(text);
  for (std::size_t i = 0; i < chat.messages.size(); ++i)
    out += (i ? " | " : "") + chat.messages[i]["role"].get<std::string>() + (chat.trained[i] ? "*" : "") +
           ": " + chat.messages[i]["content"].get<std::string>();
  return out;
}

std::string error_of(std::string_view json) {
  try {
    (void)read(json);
    return "no error";
  } catch (const DataError& error) {
    return error.what();
  }
}

TEST(Records, RowsOfAParquetFileAreRecords) {
  const RecordFile file(test::source_dir() / "tests/fixtures/parquet/chats.parquet");
  ASSERT_EQ(file.records().size(), 2u);
  const Record record = read(file.records()[1].json);
  EXPECT_EQ(record.form, RecordForm::kMessages);
  EXPECT_EQ(turns(record.text),
            "system: Be brief. | user: Where is the \"ferry\"? | assistant*: In the\nharbour.");
}

TEST(Records, EveryFormIsRecognised) {
  struct Case {
    const char* json;
    RecordForm form;
    const char *with_roles, *without;
  };
  const Case cases[] = {
      {R"({"messages":[{"role":"system","content":"S"},{"role":"user","content":"Q"},
           {"role":"assistant","content":"A","weight":0},{"role":"user","content":[{"type":"text","text":"R"}]},
           {"role":"assistant","content":"B","weight":1}]})",
       RecordForm::kMessages, "system: S | user: Q | assistant: A | user: R | assistant*: B", nullptr},
      {R"({"conversations":[{"from":"gpt","value":"first"},{"from":"human","value":"Q"},{"from":"gpt","value":"A"}],
           "system":"S"})",
       RecordForm::kShareGpt, "system: S | user: Q | assistant*: A", nullptr},
      {R"({"instruction":"Add","input":"1 2","output":"3"})", RecordForm::kAlpaca,
       "user: Add\n\n1 2 | assistant*: 3", nullptr},
      {R"({"instruction":"Sing","context":"","response":"La"})", RecordForm::kAlpaca,
       "user: Sing | assistant*: La", nullptr},
      {R"({"input":"Q","output":"A"})", RecordForm::kInputOutput, "user: Q | assistant*: A", "Q -> A"},
      {R"({"prompt":"Q","completion":"A"})", RecordForm::kCompletion, "user: Q | assistant*: A", "Q -> A"},
      {R"({"prompt":[{"role":"user","content":"Q"},{"role":"assistant","content":"old"},{"role":"user","content":"R"}],
           "completion":[{"role":"assistant","content":"A"}]})",
       RecordForm::kCompletion, "user: Q | assistant: old | user: R | assistant*: A", nullptr},
      {R"({"prompt":"Q","completion":"A","label":false})", RecordForm::kJudged, "user: Q | assistant*: A",
       "Q -> A"},
      {R"({"text":"T"})", RecordForm::kText, " -> T", " -> T"},
  };
  for (const Case& c : cases) {
    const Record record = read(c.json);
    EXPECT_EQ(record.form, c.form) << c.json;
    EXPECT_EQ(turns(record.text), c.with_roles) << c.json;
    if (c.without) {
      EXPECT_EQ(turns(read(c.json, false).text), c.without) << c.json;
    }
  }
  EXPECT_EQ(read(cases[7].json).desirable, std::optional(false));
}

TEST(Records, AlpacaWithoutRolesIsItsOwnTemplate) {
  const Record with = read(R"({"instruction":"Add","input":"1 2","output":"3"})", false),
               without = read(R"({"instruction":"Sing","input":"","output":"La"})", false);
  EXPECT_EQ(
      turns(with.text),
      "Below is an instruction that describes a task, paired with an input that provides further context. "
      "Write a response that appropriately completes the request.\n\n### Instruction:\nAdd\n\n### Input:\n"
      "1 2\n\n### Response:\n -> 3");
  EXPECT_EQ(
      turns(without.text),
      "Below is an instruction that describes a task. Write a response that appropriately completes the "
      "request.\n\n### Instruction:\nSing\n\n### Response:\n -> La");
}

TEST(Records, PairsHaveAPromptOrWhatBothBeginWith) {
  const Record given = read(R"({"prompt":"Q","chosen":"good","rejected":"bad"})");
  EXPECT_EQ(turns(given.text), "user: Q | assistant*: good");
  EXPECT_EQ(turns(*given.rejected), "user: Q | assistant*: bad");
  const Record lists = read(
      R"({"chosen":[{"role":"user","content":"Q"},{"role":"assistant","content":"good"}],
          "rejected":[{"role":"user","content":"Q"},{"role":"assistant","content":"bad"}]})");
  EXPECT_EQ(turns(lists.text), "user: Q | assistant*: good");
  EXPECT_EQ(turns(*lists.rejected), "user: Q | assistant*: bad");
  const Record texts = read("{\"chosen\":\"Human: é Assistant: ê\",\"rejected\":\"Human: é Assistant: è\"}");
  EXPECT_EQ(turns(texts.text), "Human: é Assistant:  -> ê");  // not cut within a character
}

TEST(Records, PairsOfDataSetsThatPeopleHave) {
  const struct {
    const char *json, *chosen;
  } cases[] = {
      // Orca's pairs.
      {R"({"system":"S","question":"Q","chosen":"good","rejected":"bad"})",
       "system: S | user: Q | assistant*: good"},
      // LLaMA-Factory's, of Alpaca's and of ShareGPT's form.
      {R"({"instruction":"Q","input":"R","chosen":"good","rejected":"bad"})",
       "user: Q\n\nR | assistant*: good"},
      {R"({"conversations":[{"from":"human","value":"Q"}],"chosen":{"from":"gpt","value":"good"},
           "rejected":{"from":"gpt","value":"bad"}})",
       "user: Q | assistant*: good"},
      {R"({"conversations":[{"from":"human","value":"Q"}],"chosen":"good","rejected":"bad"})",
       "user: Q | assistant*: good"},
      // UltraFeedback's: the answers are chats, which repeat the prompt.
      {R"({"prompt":"Q","chosen":[{"role":"user","content":"Q"},{"role":"assistant","content":"good"}],
           "rejected":[{"role":"user","content":"Q"},{"role":"assistant","content":"bad"}]})",
       "user: Q | assistant*: good"},
      {R"({"prompt":[{"role":"user","content":"Q"}],
           "chosen":[{"role":"user","content":"Q"},{"role":"assistant","content":"good"}],
           "rejected":[{"role":"user","content":"Q"},{"role":"assistant","content":"bad"}]})",
       "user: Q | assistant*: good"},
      // Repeated with other keys and names.
      {R"({"prompt":[{"from":"human","value":"Q","name":null}],
           "chosen":[{"role":"user","content":"Q"},{"role":"assistant","content":"good"}],
           "rejected":[{"role":"user","content":"Q"},{"role":"assistant","content":"bad"}]})",
       "user: Q | assistant*: good"},
      {R"({"instruction":"Q","input":"","history":[["P","A"]],"chosen":"good","rejected":"bad"})",
       "user: P | assistant: A | user: Q | assistant*: good"},
      {R"({"conversations":[{"from":"gpt","value":"first"},{"from":"human","value":"Q"}],
           "chosen":{"from":"gpt","value":"good"},"rejected":{"from":"gpt","value":"bad"}})",
       "user: Q | assistant*: good"},
      // Capybara's: what was asked stands in a form of its own next to them.
      {R"({"conversation":[{"input":"Q","output":"good"}],
           "chosen":[{"role":"user","content":"Q"},{"role":"assistant","content":"good"}],
           "rejected":[{"role":"user","content":"Q"},{"role":"assistant","content":"bad"}]})",
       "user: Q | assistant*: good"},
  };
  for (const auto& c : cases) {
    const Record record = read(c.json);
    EXPECT_EQ(turns(record.text), c.chosen) << c.json;
    std::string rejected = c.chosen;
    rejected.replace(rejected.find("good"), 4, "bad");
    EXPECT_EQ(turns(*record.rejected), rejected) << c.json;
  }
}

// Other columns than "prompt" beside whole texts or chats change nothing.
TEST(Records, PairsThatAreWholeStayWhole) {
  const char* more[] = {R"("question":"x.")", R"("input":{"a":1})", R"("system":"S")"};
  for (const char* column : more) {
    const Record record =
        read(fmt::format(R"({{"chosen":"Q: x. A: Yes","rejected":"Q: x. A: No",{}}})", column));
    const auto& text = std::get<Continuation>(record.text);
    EXPECT_EQ(text.prompt + "|" + text.answer, "Q: x. A: |Yes") << column;
  }
  EXPECT_THAT(
      error_of(R"({"prompt":"P","chosen":[{"role":"user","content":"Q"},{"role":"assistant","content":"A"}],
                          "rejected":[{"role":"user","content":"Q"},{"role":"assistant","content":"B"}]})"),
      HasSubstr("roles out of order"));
}

TEST(Records, TextsToBeComparedAreNotAnswers) {
  const Place place{"x.jsonl", 1};
  const auto form = [&](const char* json) { return form_of(Json::parse(json), place); };
  EXPECT_EQ(form(R"({"query":"Q","response":"A","pos":["p"],"neg":["n"]})"), RecordForm::kCompared);
  EXPECT_EQ(form(R"({"question":"Q","response":"A","text":"T"})"), RecordForm::kText);
  EXPECT_EQ(form(R"({"question":"Q","response":"A"})"), RecordForm::kCompletion);
  EXPECT_EQ(form(R"({"question":"Q","answer":"A"})"), RecordForm::kQuestion);
  EXPECT_EQ(form(R"({"question":"Q","answer":"A","negative":"N"})"), RecordForm::kCompared);
}

TEST(Records, QuestionsWithAnswersAreEitherTrainedOrCompared) {
  const char* const gsm8k = R"({"question":"How many?","answer":"#### 4"})";
  EXPECT_EQ(turns(read(gsm8k).text), "user: How many? | assistant*: #### 4");
  EXPECT_EQ(turns(read(R"({"context":"A cat sat.","question":"Who?","answer":"A cat"})").text),
            "user: Who?\n\nA cat sat. | assistant*: A cat");
  EXPECT_EQ(turns(read(R"({"context":["A","B"],"question":"Who?","answer":"C"})").text),
            "user: Who?\n\nA\n\nB | assistant*: C");
  const Record compared =
      read_record(Json::parse(gsm8k), RecordForm::kQuestion, kRecordPlace, {.compared = true});
  EXPECT_THAT(compared.compared, ElementsAre("How many?", "#### 4"));
}

TEST(Records, JudgedAnswersToQuestions) {
  const Place place{"x.jsonl", 1};
  const Json json = Json::parse(R"({"question":"Q","response":"A","label":false})");
  EXPECT_EQ(form_of(json, place), RecordForm::kJudged);
  EXPECT_EQ(read_record(json, RecordForm::kJudged, place, {}).desirable, std::optional(false));
  EXPECT_EQ(form_of(Json::parse(R"({"question":"Q","answer":"A","label":0})"), place), RecordForm::kJudged);
  EXPECT_EQ(form_of(Json::parse(R"({"prompt":"Q","response":"A","label":"maths"})"), place),
            RecordForm::kCompletion);
}

TEST(Records, SystemMessagesAndHistoryBesideThePrompt) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"system":"S","prompt":"Q","completion":"A"})", "system: S | user: Q | assistant*: A"},
      {R"({"system_prompt":"S","question":"Q","response":"A"})", "system: S | user: Q | assistant*: A"},
      {R"({"question":"Q","answer":"A"})", "user: Q | assistant*: A"},
      {R"({"question":"Q","context":"C","answer":"A"})", "user: Q\n\nC | assistant*: A"},
      {R"({"instruction":"Q","answer":"A"})", "user: Q | assistant*: A"},
      {R"({"system":"","system_prompt":"S","question":"Q","response":"A"})",
       "system: S | user: Q | assistant*: A"},
      {R"({"prompt":"R","completion":"B","history":[["Q","A"]]})",
       "user: Q | assistant*: A | user: R | assistant*: B"},
      {R"({"instruction":"Q","output":"A","history":""})", "user: Q | assistant*: A"},
      {R"({"query":"Q","response":"A"})", "user: Q | assistant*: A"},
      {R"({"system":"S","messages":[{"role":"user","content":"Q"},{"role":"assistant","content":"A"}]})",
       "system: S | user: Q | assistant*: A"},
      {R"({"system":"S","messages":[{"role":"system","content":"T"},{"role":"user","content":"Q"},
           {"role":"assistant","content":"A"}]})",
       "system: T | user: Q | assistant*: A"},
      {R"({"instruction":"R","input":"","output":"B","system":"S","history":[["Q","A"]]})",
       "system: S | user: Q | assistant*: A | user: R | assistant*: B"},
      {R"({"instruction":"R","input":"","output":"B","system":"","history":[]})", "user: R | assistant*: B"},
  };
  for (const auto& [json, expected] : cases) EXPECT_EQ(turns(read(json).text), expected) << json;
  EXPECT_THAT(error_of(R"({"instruction":"R","output":"B","history":["Q"]})"),
              HasSubstr("\"history\" holds \"Q\", expected [question, answer]"));
  EXPECT_THROW(read(R"({"system":"S","prompt":"Q","completion":"A"})", false), DataError);
}

TEST(Records, ArgumentsOfCallsAreObjects) {
  const auto with = [](std::string_view arguments) {
    return fmt::format(
        R"({{"messages":[{{"role":"user","content":"Q"}},{{"role":"assistant","tool_calls":[{{"function":{{"name":"f","arguments":{}}}}}]}}],"tools":""}})",
        arguments);
  };
  for (const char* none : {"\"\"", "null", "{}", "\"{}\""}) {
    const Record record = read(with(none));
    const auto& chat = std::get<Conversation>(record.text);
    EXPECT_EQ(chat.messages[1]["tool_calls"][0]["function"]["arguments"], Json::object()) << none;
    EXPECT_TRUE(chat.tools.is_null());
  }
  const Record named = read(
      R"({"messages":[{"role":"user","content":"Q"},{"role":"assistant","tool_calls":[{"name":"f","arguments":null,"parameters":{"x":1}}]}]})");
  EXPECT_EQ(std::get<Conversation>(named.text).messages[1]["tool_calls"][0]["function"]["arguments"],
            (Json{{"x", 1}}));
  for (const char* other : {R"("{\"a\":")", "\"[1]\"", "[1]", "7"})
    EXPECT_THAT(error_of(with(other)), HasSubstr("message 2: the arguments of 'f' are ")) << other;
}

TEST(Records, ToolCallsBecomeWhatTemplatesTake) {
  const Record openai = read(
      R"({"messages":[{"role":"user","content":"weather?"},
          {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function",
            "function":{"name":"look","arguments":"{\"at\":\"sky\"}"}}]},
          {"role":"tool","tool_call_id":"1","content":"blue"},{"role":"assistant","content":"Blue."}],
          "tools":[{"type":"function","function":{"name":"look"}}]})");
  const auto& chat = std::get<Conversation>(openai.text);
  EXPECT_EQ(chat.messages[1]["tool_calls"][0]["function"]["arguments"], Json({{"at", "sky"}}));
  EXPECT_EQ(chat.messages[2]["tool_call_id"], "1");
  EXPECT_EQ(chat.tools[0]["function"]["name"], "look");
  EXPECT_THAT(chat.trained, ElementsAre(false, true, false, true));
  const Record share = read(
      R"({"conversations":[{"from":"human","value":"weather?"},
          {"from":"function_call","value":"{\"name\":\"look\",\"arguments\":{\"at\":\"sky\"}}"},
          {"from":"observation","value":"blue"},{"from":"gpt","value":"Blue."}],"tools":"[{\"name\":\"look\"}]"})");
  const auto& shared = std::get<Conversation>(share.text);
  EXPECT_EQ(shared.messages[1]["tool_calls"][0]["function"], chat.messages[1]["tool_calls"][0]["function"]);
  EXPECT_EQ(shared.tools[0]["name"], "look");
}

TEST(Records, FilesOfOtherFormsAreNamed) {
  const auto fault = [](std::string content) {
    try {
      const RecordFile file("chats", std::move(content));
      parse_json(file.records().front().json, file.place(file.records().front()));
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  EXPECT_THAT(fault("\x1F\x8B\x08"), HasSubstr("chats is gzip data: give it a name that ends with .gz"));
  EXPECT_THAT(fault("\x28\xB5\x2F\xFD"), HasSubstr("zstd"));
  EXPECT_THAT(fault("\xFF\xFE{"), HasSubstr("UTF-16"));
  EXPECT_THAT(fault("{\n  \"data\": []\n}"),
              HasSubstr("a record is a line, or the file is an array of records"));
}

TEST(Records, FaultsNameTheRecord) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"question":"Q"})", "chats.jsonl record 3: its keys are question; expected messages"},
      {R"([1])", "record 3: not a JSON object"},
      {R"({"text": )", "record 3: not valid JSON: parse error at line 1, column 10"},
      {"{\"text\": \"caf\xE9\"}", "invalid string: ill-formed UTF-8 byte"},
      {R"({"messages":[]})", "\"messages\" is not a list of messages"},
      {R"({"messages":[{"role":"usr","content":"Q"}]})", "message 1: no role 'usr' (did you mean 'user'?)"},
      {R"({"messages":[{"role":"user","content":7}]})", "\"content\" is number, expected text"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})", "a part of type 'image_url'"},
      {R"({"messages":[{"role":"user","content":"Q"},{"role":"assistant","content":"A","weight":0.5}]})",
       "weight 0.5, expected 0 (not trained) or 1"},
      {R"({"messages":[{"role":"user","content":"Q"},{"role":"user","content":"Q"}]})",
       "roles out of order: message 2 is of the user and follows one of the user; expected an answer"},
      {R"({"messages":[{"role":"assistant","content":"A"}]})", "expected a message of the user first"},
      {R"({"messages":[{"role":"user","content":"Q"},{"role":"tool","content":"A"}]})",
       "a tool answers a call of the assistant"},
      {R"({"messages":[{"role":"user","content":"Q"},{"role":"system","content":"A"}]})",
       "a system message comes first"},
      {R"({"messages":[{"role":"user","content":"Q"},{"role":"assistant","content":""}]})",
       "message 2: an empty answer cannot be trained"},
      {R"({"prompt":"Q","completion":""})", "\"completion\" is empty: there is nothing to train"},
      {R"({"question":"Q","answer":7})", "\"answer\" is number, expected text"},
      {R"({"prompt":"Q","chosen":"A","rejected":"A"})", "\"chosen\" and \"rejected\" are equal"},
      {R"({"prompt":"Q","completion":"A","label":"yes"})", "\"label\" is \"yes\", expected true"},
      {R"({"messages":[{"role":"user","content":"Q"},{"role":"assistant","tool_calls":[{"name":7}]}]})",
       "a tool call needs the \"name\" of a function"},
  };
  for (const auto& [json, message] : cases) EXPECT_THAT(error_of(json), HasSubstr(message)) << json;
  const std::string deep = "{\"text\":" + std::string(5000, '[') + std::string(5000, ']') + "}";
  EXPECT_THAT(error_of(deep), HasSubstr("nested more than 100 deep"));
}

std::vector<std::string> texts(const std::string& content) {
  std::vector<std::string> out;
  const RecordFile file("f", content);
  for (const auto& record : file.records())
    out.push_back(std::to_string(record.number) + " " + parse_json(record.json, kRecordPlace).dump());
  return out;
}

TEST(RecordFiles, LinesAndArraysWhateverTheName) {
  EXPECT_THAT(texts("{\"a\":1}\n\n{\"b\":\"x\\ny\"}\r\n"), ElementsAre("1 {\"a\":1}", "3 {\"b\":\"x\\ny\"}"));
  EXPECT_THAT(texts("\xEF\xBB\xBF{\"a\":1}"), ElementsAre("1 {\"a\":1}"));
  EXPECT_THAT(texts(" [ {\"a\": [1, {\"b\": \"],{\\\"\"}]} ,\n {\"c\": 2} ] \n"),
              ElementsAre("1 {\"a\":[1,{\"b\":\"],{\\\"\"}]}", "2 {\"c\":2}"));
  EXPECT_THROW(texts(""), DataError);
  EXPECT_THROW(texts("[]"), DataError);
  EXPECT_THROW(texts("[{\"a\":1}"), DataError);
  EXPECT_THROW(texts("[{\"a\":1}] x"), DataError);
}

TEST(RecordFiles, RowsOfATableAreRecords) {
  const auto rows = [](const std::string& name, const std::string& content) {
    std::vector<std::string> out;
    const RecordFile file(name, content);
    for (const auto& record : file.records())
      out.push_back(std::to_string(record.number) + " " + parse_json(record.json, kRecordPlace).dump());
    return out;
  };
  EXPECT_THAT(
      rows("a.csv", "prompt,completion\r\n\"a, \"\"b\"\"\nc\",7\r\n\nd,\r\n"),
      ElementsAre(R"(1 {"prompt":"a, \"b\"\nc","completion":"7"})", R"(2 {"prompt":"d","completion":""})"));
  EXPECT_THAT(rows("a.csv", "\xEF\xBB\xBFprompt; completion ;score\na,b;[c];1.5\n"),
              ElementsAre(R"(1 {"prompt":"a,b","completion":"[c]","score":1.5})"));
  EXPECT_THAT(rows("a.tsv", "\tprompt\tlabel\n0\ta,b\tTrue\n"),
              ElementsAre(R"(1 {"prompt":"a,b","label":true})"));
  EXPECT_THAT(rows("a.csv", "messages\n\"[{\"\"role\"\": \"\"user\"\"}]\"\n"),
              ElementsAre(R"(1 {"messages":[{"role":"user"}]})"));
  EXPECT_THAT(rows("a.csv", "{\"text\":\"a\"}\n"), ElementsAre(R"(1 {"text":"a"})"));
  EXPECT_THAT(rows("a.csv", "\xEF\xBB\xBF{\"text\":\"a\"}\n"), ElementsAre(R"(1 {"text":"a"})"));
  EXPECT_THAT(rows("a.csv", "\"a, b\";prompt;text\n1;2;3\n"),
              ElementsAre(R"(1 {"a, b":"1","prompt":"2","text":"3"})"));
  const auto fault = [&](const std::string& content) {
    try {
      rows("a.csv", content);
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  EXPECT_EQ(
      fault("prompt,completion\na,b\nc\n"),
      "a.csv record 2 (line 3): 1 cells, the header has 2: prompt, completion; a table is read as a whole or "
      "not at all");
  EXPECT_EQ(fault("prompt,completion\ncaf\xE9,b\n"),
            "a.csv record 1 (line 2) is not UTF-8 text; save the file as UTF-8");
  EXPECT_THAT(fault("prompt,completion\n"), HasSubstr("holds no records"));
  EXPECT_THAT(fault("text,text\na,b\n"), HasSubstr("two columns are called 'text'"));
  EXPECT_THAT(fault("prompt\n\"a\n"), HasSubstr("a quoted cell does not end"));
}

TEST(Records, MarginsAndScores) {
  EXPECT_EQ(read(R"({"prompt": "a", "chosen": "b", "rejected": "c"})").margin, 0);
  EXPECT_EQ(read(R"({"prompt": "a", "chosen": "b", "rejected": "c", "margin": 0.5})").margin, 0.5);
  EXPECT_THAT(error_of(R"({"prompt": "a", "chosen": "b", "rejected": "c", "margin": "much"})"),
              HasSubstr("chats.jsonl record 3: \"margin\" is \"much\", expected a number"));
  const auto scored = [](std::string_view json) {
    const Json object = parse_json(json, kRecordPlace);
    return read_record(object, form_of(object, kRecordPlace), kRecordPlace, {.roles = false, .score = true});
  };
  EXPECT_EQ(scored(R"({"text": "a", "score": -1.5})").score, -1.5);
  EXPECT_EQ(scored(R"({"text": "a", "label": 3})").score, 3);
  EXPECT_EQ(scored(R"({"prompt": "a", "completion": "b", "label": 0.25})").score, 0.25);
  EXPECT_FALSE(read(R"({"text": "a", "score": -1.5})").score.has_value());
  for (const char* json :
       {R"({"text": "a"})", R"({"text": "a", "label": "good"})", R"({"text": "a", "score": true})"})
    EXPECT_THROW(scored(json), DataError) << json;
}

}  // namespace
}  // namespace stoa::tune
