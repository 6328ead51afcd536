#include "tune/preference.h"

#include <algorithm>

#include "base/error.h"
#include "tune/messages.h"
#include "tune/prompt_answer.h"

namespace stoa::tune {
namespace {

// An answer as files have it: a text, messages, or one message.
Json turns_of(const Json& answer) { return answer.is_object() ? Json::array({answer}) : answer; }

// A text as the message that ends a chat. DataError: it is empty.
Json turn_of(const RecordFields& fields, const Json& answer, const char* key, const Place& place) {
  const std::string text = fields.text(answer, key);
  require_answer(text, place, key);
  return Json::array({Json{{"role", "assistant"}, {"content", text}}});
}

// What was asked, by the names that data sets have for it: a text or messages; null: nothing but the answers.
// Other names than "prompt" have other uses, too: texts that hold the question are whole.
Json prompt_of(const RecordFields& fields, const Json& chosen, const Json& rejected,
               const RecordOptions& options) {
  if (const Json* prompt = fields.find({"prompt"})) return *prompt;
  if (const Json* chat = fields.find({"conversations", "conversation"})) return *chat;
  const Json* named = fields.find({"instruction", "question", "query", "input"});
  if (!named || !named->is_string()) return {};
  const auto holds = [&](const Json& answer) {
    return answer.is_string() &&
           answer.get_ref<const std::string&>().find(named->get<std::string>()) != std::string::npos;
  };
  if (!is_blank_text(named->get<std::string>()) && holds(chosen) && holds(rejected)) return {};
  return fields.find({"instruction"}) ? Json(instruction_of(fields, options.roles)) : *named;
}

// Whether both answers are chats that begin with the prompt, too: they are read alone then.
bool repeats_prompt(const RecordFields& fields, const Json& chosen, const Json& rejected,
                    const Place& place) {
  if (!chosen.is_array()) return false;
  const Json a = read_messages(chosen, place, "chosen").messages,
             b = read_messages(rejected, place, "rejected").messages;
  if (a[0]["role"] == "assistant" || b[0]["role"] == "assistant") return false;
  const Json* prompt = fields.find({"prompt"});
  if (!prompt) return true;
  if (!prompt->is_array()) {
    const auto asks = [&](const Json& message) {
      return message["role"] == "user" && message["content"] == *prompt;
    };
    return std::any_of(a.begin(), a.end(), asks) && std::any_of(b.begin(), b.end(), asks);
  }
  const Json asked = read_messages(*prompt, place, "prompt").messages;
  const auto begins = [&](const Json& chat) {
    return asked.size() < chat.size() && std::equal(asked.begin(), asked.end(), chat.begin());
  };
  return begins(a) && begins(b);
}

// Two chats: what both begin with is the prompt.
void split_chats(Record& out) {
  auto &a = std::get<Conversation>(out.text), &b = std::get<Conversation>(*out.rejected);
  const auto common =
      std::mismatch(a.messages.begin(), a.messages.end(), b.messages.begin(), b.messages.end());
  const auto first = static_cast<std::size_t>(common.first - a.messages.begin());
  train_from(a, first);
  train_from(b, first);
}

// Two texts: what both begin with is the prompt.
void split_texts(const std::string& a, const std::string& b, Record& out) {
  auto common =
      static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  while (common > 0 && (static_cast<unsigned char>(a[std::min(common, a.size() - 1)]) & 0xc0) == 0x80)
    --common;  // not within a character
  require_answer(a.substr(common), out.place, "chosen");
  require_answer(b.substr(common), out.place, "rejected");
  out.text = Continuation{a.substr(0, common), a.substr(common)};
  out.rejected = Continuation{b.substr(0, common), b.substr(common)};
}

}  // namespace

void read_preference(const RecordFields& fields, Record& out, const RecordOptions& options) {
  Json chosen = turns_of(fields.need({"chosen"})), rejected = turns_of(fields.need({"rejected"}));
  if (const Json* margin = fields.find({"margin"})) out.margin = fields.number(*margin, "margin");
  require<DataError>(chosen.is_array() == rejected.is_array(),
                     "{}: one of \"chosen\" and \"rejected\" is a text, the other a list of messages",
                     out.place.text());
  require<DataError>(chosen != rejected, "{}: \"chosen\" and \"rejected\" are equal: nothing to prefer",
                     out.place.text());
  const bool repeated = repeats_prompt(fields, chosen, rejected, out.place);
  const Json prompt = repeated ? Json() : prompt_of(fields, chosen, rejected, options);
  if (prompt.is_null() && !chosen.is_array())
    return split_texts(fields.text(chosen, "chosen"), fields.text(rejected, "rejected"), out);
  if (prompt.is_array() && !chosen.is_array()) {  // a chat, and texts that end it
    chosen = turn_of(fields, chosen, "chosen", out.place);
    rejected = turn_of(fields, rejected, "rejected", out.place);
  }
  const Json* asked = prompt.is_null() ? nullptr : &prompt;
  out.text = answered(fields, asked, chosen, "chosen", out.place, options.roles);
  out.rejected = answered(fields, asked, rejected, "rejected", out.place, options.roles);
  if (!asked) return split_chats(out);
  if (prompt.is_array() && !fields.find({"prompt"}))  // ShareGPT's
    for (Answered* text : {&out.text, &*out.rejected})
      drop_before_first_question(std::get<Conversation>(*text));
}

}  // namespace stoa::tune
