#include "tune/record.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "tune/messages.h"
#include "tune/preference.h"
#include "tune/prompt_answer.h"
#include "tune/record_fields.h"

namespace stoa::tune {
namespace {

constexpr std::initializer_list<const char*> kOutputs{"output", "response", "answer"},
    kAnswerNames{"completion", "response", "answer"};

void check(const Answered& text, const Place& place) {
  if (const auto* chat = std::get_if<Conversation>(&text)) check_order(*chat, place);
}

void set_tools(Answered& text, const RecordFields& fields, const Place& place) {
  auto* chat = std::get_if<Conversation>(&text);
  const Json* tools = fields.find({"tools", "functions"});
  if (chat && tools) chat->tools = read_tools(*tools, place);
}

Conversation share_gpt(const RecordFields& fields, const Place& place) {
  Conversation chat = read_messages(fields.need({"conversations", "conversation"}), place, "conversations");
  drop_before_first_question(chat);
  return chat;
}

Answered alpaca(const RecordFields& fields, const Place& place, bool roles) {
  const std::string output = fields.text(kOutputs);
  require_answer(output, place, fields.name_of(kOutputs));
  return pair_of(instruction_of(fields, roles), output, roles);
}

// Columns of sentence-transformers' data sets have any names; these are the usual ones.
constexpr std::initializer_list<const char*> kQueries{"query", "anchor", "question", "sentence1"},
    kPositives{"positive", "pos", "answer", "sentence2"};

// One text, or a list of them.
void add_texts(const RecordFields& fields, const Json& value, const std::string& name,
               std::vector<std::string>& out) {
  if (!value.is_array()) return out.push_back(fields.text(value, name.c_str()));
  for (const Json& text : value) out.push_back(fields.text(text, name.c_str()));
}

// A question, and the text that it is about.
Json question_of(const RecordFields& fields) {
  const Json& question = fields.need({"question", "query"});
  const Json* context = fields.find({"context"});
  if (context == nullptr || !question.is_string()) return question;
  std::vector<std::string> texts{question.get<std::string>()};
  add_texts(fields, *context, "context", texts);
  std::erase_if(texts, [](const std::string& text) { return text.empty(); });
  return fmt::format("{}", fmt::join(texts, "\n\n"));
}

// "negative", "negatives" or "neg", a text or a list; "negative_1", "negative_2" … follow.
std::vector<std::string> compared_texts(const RecordFields& fields, const Place& place) {
  std::vector<std::string> out{fields.text(kQueries)};
  add_texts(fields, fields.need(kPositives), "positive", out);
  require<DataError>(out.size() == 2, "{}: {} positives, expected one: give a record for each", place.text(),
                     out.size() - 1);
  if (const Json* negatives = fields.find({"negative", "negatives", "neg"}))
    add_texts(fields, *negatives, "negative", out);
  for (int n = 0;; ++n) {
    const std::string name = fmt::format("negative_{}", n);
    const Json* negative = fields.find({name.c_str()});
    if (negative)
      add_texts(fields, *negative, name, out);
    else if (n > 0)
      break;
  }
  for (std::size_t i = 0; i < out.size(); ++i)
    require<DataError>(!is_blank_text(out[i]), "{}: the {} is empty: it has no vector to compare",
                       place.text(),
                       i == 0   ? "query"
                       : i == 1 ? "positive"
                                : "negative");
  for (std::size_t i = 0; i < out.size(); ++i)
    require<DataError>(i == 1 || out[i] != out[1],
                       "{}: the positive is equal to {}: there is nothing to learn", place.text(),
                       i == 0 ? "its query" : "a negative");
  return out;
}

bool read_label(const Json& value, const Place& place) {
  require<DataError>(value.is_boolean() || value == 0 || value == 1,
                     "{}: \"label\" is {}, expected true (desirable) or false", place.text(), value.dump());
  return value.is_boolean() ? value.get<bool>() : value == 1;
}

}  // namespace

std::string Place::text() const { return fmt::format("{} record {}", file, number); }

std::string_view name_of(RecordForm form) {
  switch (form) {
    case RecordForm::kMessages:
      return "OpenAI messages";
    case RecordForm::kShareGpt:
      return "ShareGPT conversations";
    case RecordForm::kAlpaca:
      return "Alpaca instructions";
    case RecordForm::kInputOutput:
      return "NeMo input and output";
    case RecordForm::kCompletion:
      return "prompts and completions";
    case RecordForm::kPreference:
      return "preference pairs";
    case RecordForm::kJudged:
      return "judged completions (KTO)";
    case RecordForm::kCompared:
      return "texts to be compared";
    case RecordForm::kQuestion:
      return "questions and answers";
    case RecordForm::kText:
      return "texts";
  }
  return "";
}

std::string alpaca_prompt(std::string_view instruction, std::string_view input) {
  return fmt::format(
      "Below is an instruction that describes a task{}. Write a response that appropriately completes the "
      "request.\n\n### Instruction:\n{}\n\n{}### Response:\n",
      input.empty() ? "" : ", paired with an input that provides further context", instruction,
      input.empty() ? std::string() : fmt::format("### Input:\n{}\n\n", input));
}

RecordForm form_of(const Json& object, const Place& place) {
  require<DataError>(object.is_object(), "{}: not a JSON object", place.text());
  const auto has = [&](const char* key) { return object.contains(key) && !object[key].is_null(); };
  if (has("chosen") && has("rejected")) return RecordForm::kPreference;
  const bool asks = has("question") || has("query");
  if ((has("prompt") || has("messages")) && has("completion") && has("label")) return RecordForm::kJudged;
  if ((has("prompt") || asks) && (has("completion") || has("response") || has("answer")) && has("label") &&
      (object["label"].is_boolean() || object["label"] == 0 || object["label"] == 1))
    return RecordForm::kJudged;
  if (has("messages")) return RecordForm::kMessages;
  if (has("conversations") || has("conversation")) return RecordForm::kShareGpt;
  if (has("instruction") && (has("output") || has("response") || has("answer"))) return RecordForm::kAlpaca;
  if (has("prompt") && (has("completion") || has("response") || has("answer")))
    return RecordForm::kCompletion;
  if (has("input") && has("output")) return RecordForm::kInputOutput;
  if (has("text")) return RecordForm::kText;
  const auto has_one = [&](std::initializer_list<const char*> keys) {
    return std::any_of(keys.begin(), keys.end(), has);
  };
  if (asks && has("answer") &&
      !has_one({"positive", "pos", "anchor", "negative", "negatives", "neg", "negative_0", "negative_1"}))
    return RecordForm::kQuestion;
  if (has_one(kQueries) && has_one(kPositives)) return RecordForm::kCompared;
  if (asks && (has("response") || has("completion")))  // OpenOrca's and MetaMathQA's names
    return RecordForm::kCompletion;
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  fail<DataError>(
      "{}: its keys are {}; expected messages, conversations, instruction and output, prompt and completion, "
      "input and output, question and answer (or response), chosen and rejected, query and positive, or text",
      place.text(), keys.empty() ? "none" : fmt::format("{}", fmt::join(keys, ", ")));
}

Record read_record(const Json& object, RecordForm form, const Place& place, const RecordOptions& options) {
  require<DataError>(object.is_object(), "{}: not a JSON object", place.text());
  const RecordFields fields(object, place);
  Record out;
  out.form = form;
  out.place = place;
  if (options.score) {
    const bool named = fields.find({"score"}) != nullptr;
    out.score = fields.number(fields.need({"score", "label"}), named ? "score" : "label");
  }
  switch (form) {
    case RecordForm::kMessages:
      out.text = read_messages(fields.need({"messages"}), place, "messages");
      break;
    case RecordForm::kShareGpt:
      out.text = share_gpt(fields, place);
      break;
    case RecordForm::kAlpaca:
      out.text = alpaca(fields, place, options.roles);
      break;
    case RecordForm::kInputOutput: {
      const std::string output = fields.text({"output"});
      require_answer(output, place, "output");
      out.text = pair_of(fields.text({"input"}), output, options.roles);
      break;
    }
    case RecordForm::kJudged:
      if (!options.score) out.desirable = read_label(fields.need({"label"}), place);
      [[fallthrough]];
    case RecordForm::kCompletion:
      out.text = answered(fields, &fields.need({"prompt", "question", "query"}), fields.need(kAnswerNames),
                          fields.name_of(kAnswerNames), place, options.roles);
      break;
    case RecordForm::kPreference:
      read_preference(fields, out, options);
      break;
    case RecordForm::kQuestion:
      if (!options.compared) {
        const Json asked = question_of(fields);
        out.text = answered(fields, &asked, fields.need({"answer"}), "answer", place, options.roles);
        break;
      }
      [[fallthrough]];
    case RecordForm::kCompared:
      out.compared = compared_texts(fields, place);
      return out;
    case RecordForm::kText: {
      const std::string text = fields.text({"text"});
      require_answer(text, place, "text");
      out.text = Continuation{"", text};
      break;
    }
  }
  const bool has_turns = form == RecordForm::kMessages || form == RecordForm::kShareGpt;
  const auto finish = [&](Answered& text) {
    if (form != RecordForm::kText) {
      if (!has_turns) set_history(text, fields, place, options.roles, !out.rejected);
      set_system(text, fields, place, options.roles);
    }
    set_tools(text, fields, place);
    check(text, place);
  };
  finish(out.text);
  if (out.rejected) finish(*out.rejected);
  return out;
}

}  // namespace stoa::tune
