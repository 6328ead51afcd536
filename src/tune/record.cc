#include "tune/record.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tune/messages.h"

namespace stoa::tune {
namespace {

// An object, and where it stands for messages.
class Fields {
 public:
  Fields(const Json& object, const Place& place) : object_(object), place_(place) {}

  double number(const Json& value, const char* name) const {
    require<DataError>(value.is_number() && std::isfinite(value.get<double>()),
                       "{}: \"{}\" is {}, expected a number", place_.text(), name, value.dump());
    return value.get<double>();
  }
  // The value of the first of `names` that is there; null: none is.
  const Json* find(std::initializer_list<const char*> names) const {
    for (const char* name : names)
      if (const auto found = object_.find(name); found != object_.end() && !found->is_null()) return &*found;
    return nullptr;
  }
  const Json& need(std::initializer_list<const char*> names) const {
    const Json* found = find(names);
    require<DataError>(found != nullptr, "{}: no \"{}\", which other records of the file have", place_.text(),
                       *names.begin());
    return *found;
  }
  std::string text(const Json& value, const char* name) const {
    require<DataError>(value.is_string(), "{}: \"{}\" is {}, expected text", place_.text(), name,
                       value.type_name());
    return value.get<std::string>();
  }
  std::string text(std::initializer_list<const char*> names) const {
    return text(need(names), *names.begin());
  }
  std::string optional_text(std::initializer_list<const char*> names) const {
    const Json* found = find(names);
    return found ? text(*found, *names.begin()) : std::string();
  }

 private:
  const Json& object_;
  const Place& place_;
};

bool names_turns(const Json& value) { return value.is_array(); }

void require_answer(const std::string& answer, const Place& place, const char* key) {
  require<DataError>(!answer.empty(), "{}: \"{}\" is empty: there is nothing to train", place.text(), key);
}

// A prompt and its answer, in one of the two forms. The answer alone is trained.
Answered pair_of(const std::string& system, const std::string& prompt, const std::string& answer,
                 bool roles) {
  if (!roles) return Continuation{prompt, answer};
  Conversation out;
  if (!system.empty()) add_message(out, "system", system);
  add_message(out, "user", prompt);
  add_message(out, "assistant", answer);
  return out;
}

void train_from(Conversation& conversation, std::size_t first) {
  for (std::size_t i = 0; i < conversation.trained.size(); ++i)
    conversation.trained[i] = conversation.trained[i] && i >= first;
}

// `prompt` followed by `answer`: two texts, or two lists of messages.
Answered answered(const Fields& fields, const Json* prompt, const Json& answer, const char* key,
                  const Place& place, bool roles) {
  if (!names_turns(answer)) {
    const std::string text = fields.text(answer, key);
    require_answer(text, place, key);
    require<DataError>(!prompt || !names_turns(*prompt),
                       "{}: \"prompt\" is a list of messages, \"{}\" is a text; expected both alike",
                       place.text(), key);
    if (!prompt) return Continuation{"", text};
    return pair_of("", fields.text(*prompt, "prompt"), text, roles);
  }
  Conversation out;
  if (prompt) {
    if (names_turns(*prompt))
      out = read_messages(*prompt, place, "prompt");
    else
      add_message(out, "user", fields.text(*prompt, "prompt"));
  }
  const std::size_t first = out.messages.size();
  const Conversation end = read_messages(answer, place, key);
  for (std::size_t i = 0; i < end.messages.size(); ++i) {
    out.messages.push_back(end.messages[i]);
    out.trained.push_back(end.trained[i]);
  }
  train_from(out, first);
  return out;
}

void check(const Answered& text, const Place& place) {
  if (const auto* chat = std::get_if<Conversation>(&text)) check_order(*chat, place);
}

void set_tools(Answered& text, const Fields& fields, const Place& place) {
  auto* chat = std::get_if<Conversation>(&text);
  const Json* tools = fields.find({"tools", "functions"});
  if (chat && tools) chat->tools = read_tools(*tools, place);
}

// ShareGPT's conversations often begin with an answer: what comes before the first question is left out.
void drop_before_first_question(Conversation& chat) {
  std::size_t first = 0;
  while (first < chat.messages.size() && chat.messages[first]["role"] != "user") ++first;
  const bool system = !chat.messages.empty() && chat.messages[0]["role"] == "system";
  const std::size_t kept = system ? 1 : 0;
  if (first == chat.messages.size() || first <= kept) return;
  const auto at = [](auto& list, std::size_t i) { return list.begin() + static_cast<std::ptrdiff_t>(i); };
  chat.messages.erase(at(chat.messages, kept), at(chat.messages, first));
  chat.trained.erase(at(chat.trained, kept), at(chat.trained, first));
}

Conversation share_gpt(const Fields& fields, const Place& place) {
  Conversation chat = read_messages(fields.need({"conversations", "conversation"}), place, "conversations");
  if (const std::string system = fields.optional_text({"system"});
      !system.empty() && chat.messages[0]["role"] != "system") {
    const Json first = {{"role", "system"}, {"content", system}};
    chat.messages.insert(chat.messages.begin(), first);
    chat.trained.insert(chat.trained.begin(), false);
  }
  drop_before_first_question(chat);
  return chat;
}

// Without "prompt" it is what both answers begin with.
void read_pair(const Fields& fields, Record& out, const RecordOptions& options) {
  const Json *prompt = fields.find({"prompt"}), &chosen = fields.need({"chosen"}),
             &rejected = fields.need({"rejected"});
  if (const Json* margin = fields.find({"margin"})) out.margin = fields.number(*margin, "margin");
  require<DataError>(names_turns(chosen) == names_turns(rejected),
                     "{}: one of \"chosen\" and \"rejected\" is a text, the other a list of messages",
                     out.place.text());
  require<DataError>(chosen != rejected, "{}: \"chosen\" and \"rejected\" are equal: nothing to prefer",
                     out.place.text());
  if (prompt || names_turns(chosen)) {
    out.text = answered(fields, prompt, chosen, "chosen", out.place, options.roles);
    out.rejected = answered(fields, prompt, rejected, "rejected", out.place, options.roles);
    if (prompt) return;
    auto &a = std::get<Conversation>(out.text), &b = std::get<Conversation>(*out.rejected);
    const auto common =
        std::mismatch(a.messages.begin(), a.messages.end(), b.messages.begin(), b.messages.end());
    const auto first = static_cast<std::size_t>(common.first - a.messages.begin());
    train_from(a, first);
    train_from(b, first);
    return;
  }
  const std::string a = fields.text(chosen, "chosen"), b = fields.text(rejected, "rejected");
  auto common =
      static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  while (common > 0 && (static_cast<unsigned char>(a[std::min(common, a.size() - 1)]) & 0xc0) == 0x80)
    --common;  // not within a character
  require_answer(a.substr(common), out.place, "chosen");
  require_answer(b.substr(common), out.place, "rejected");
  out.text = Continuation{a.substr(0, common), a.substr(common)};
  out.rejected = Continuation{b.substr(0, common), b.substr(common)};
}

Answered alpaca(const Fields& fields, const Place& place, bool roles) {
  const std::string instruction = fields.text({"instruction"}),
                    input = fields.optional_text({"input", "context"}),
                    output = fields.text({"output", "response"});
  require_answer(output, place, "output");
  if (!roles) return Continuation{alpaca_prompt(instruction, input), output};
  const std::string question = input.empty()         ? instruction
                               : instruction.empty() ? input
                                                     : instruction + "\n\n" + input;
  return pair_of(fields.optional_text({"system"}), question, output, true);
}

// Columns of sentence-transformers' data sets have any names; these are the usual ones.
constexpr std::initializer_list<const char*> kQueries{"query", "anchor", "question", "sentence1"},
    kPositives{"positive", "pos", "answer", "sentence2"};

// One text, or a list of them.
void add_texts(const Fields& fields, const Json& value, const std::string& name,
               std::vector<std::string>& out) {
  if (!value.is_array()) return out.push_back(fields.text(value, name.c_str()));
  for (const Json& text : value) out.push_back(fields.text(text, name.c_str()));
}

bool is_blank(const std::string& text) { return text.find_first_not_of(" \t\r\n") == text.npos; }

// "negative", "negatives" or "neg", a text or a list; "negative_1", "negative_2" … follow.
std::vector<std::string> compared_texts(const Fields& fields, const Place& place) {
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
    require<DataError>(!is_blank(out[i]), "{}: the {} is empty: it has no vector to compare", place.text(),
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
  if ((has("prompt") || has("messages")) && has("completion") && has("label")) return RecordForm::kJudged;
  if (has("messages")) return RecordForm::kMessages;
  if (has("conversations") || has("conversation")) return RecordForm::kShareGpt;
  if (has("instruction") && (has("output") || has("response"))) return RecordForm::kAlpaca;
  if (has("prompt") && (has("completion") || has("response"))) return RecordForm::kCompletion;
  if (has("input") && has("output")) return RecordForm::kInputOutput;
  if (has("text")) return RecordForm::kText;
  const auto has_one = [&](std::initializer_list<const char*> keys) {
    return std::any_of(keys.begin(), keys.end(), has);
  };
  if (has_one(kQueries) && has_one(kPositives)) return RecordForm::kCompared;
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  fail<DataError>(
      "{}: its keys are {}; expected messages, conversations, instruction and output, prompt and completion, "
      "input and output, chosen and rejected, query and positive, or text",
      place.text(), keys.empty() ? "none" : fmt::format("{}", fmt::join(keys, ", ")));
}

Record read_record(const Json& object, RecordForm form, const Place& place, const RecordOptions& options) {
  require<DataError>(object.is_object(), "{}: not a JSON object", place.text());
  const Fields fields(object, place);
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
      out.text = pair_of(fields.optional_text({"system"}), fields.text({"input"}), output, options.roles);
      break;
    }
    case RecordForm::kJudged:
      if (!options.score) out.desirable = read_label(fields.need({"label"}), place);
      [[fallthrough]];
    case RecordForm::kCompletion:
      out.text = answered(fields, &fields.need({"prompt"}), fields.need({"completion", "response"}),
                          "completion", place, options.roles);
      break;
    case RecordForm::kPreference:
      read_pair(fields, out, options);
      break;
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
  set_tools(out.text, fields, place);
  check(out.text, place);
  if (!out.rejected) return out;
  set_tools(*out.rejected, fields, place);
  check(*out.rejected, place);
  return out;
}

}  // namespace stoa::tune
