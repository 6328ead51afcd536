#include "tune/preference.h"

#include <algorithm>

#include "base/error.h"
#include "tune/messages.h"
#include "tune/prompt_answer.h"

namespace stoa::tune {
namespace {

// An answer as files have it: a text, messages, or one message.
Json turns_of(const Json& answer) { return answer.is_object() ? Json::array({answer}) : answer; }

// The chat up to the answer is within it, whatever the prompt next to it repeats.
bool begins_with_prompt(const Json& answer, const Place& place, const char* key) {
  if (!answer.is_array()) return false;
  return read_messages(answer, place, key).messages[0]["role"] != "assistant";
}

// What was asked, by the names that data sets have for it: a text or messages; null: nothing but the
// answers.
Json prompt_of(const RecordFields& fields, const RecordOptions& options) {
  if (const Json* prompt = fields.find({"prompt"})) return *prompt;
  if (const Json* chat = fields.find({"conversations", "conversation"})) return *chat;
  if (fields.find({"instruction"})) return instruction_of(fields, options.roles);
  const Json* prompt = fields.find({"question", "query", "input"});
  return prompt ? *prompt : Json();
}

bool is_beginning(const Json& messages, const Json& of) {
  return messages.size() < of.size() && std::equal(messages.begin(), messages.end(), of.begin());
}

// Whether both answers are chats that hold what was asked, too: they are read alone then, whatever else the
// record has. Messages of "prompt" must be those that both begin with.
bool repeats_prompt(const RecordFields& fields, const Json& chosen, const Json& rejected,
                    const Place& place) {
  if (!begins_with_prompt(chosen, place, "chosen") || !begins_with_prompt(rejected, place, "rejected"))
    return false;
  const Json* prompt = fields.find({"prompt"});
  return !prompt || !prompt->is_array() || (is_beginning(*prompt, chosen) && is_beginning(*prompt, rejected));
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
  const Json chosen = turns_of(fields.need({"chosen"})), rejected = turns_of(fields.need({"rejected"}));
  if (const Json* margin = fields.find({"margin"})) out.margin = fields.number(*margin, "margin");
  require<DataError>(chosen.is_array() == rejected.is_array(),
                     "{}: one of \"chosen\" and \"rejected\" is a text, the other a list of messages",
                     out.place.text());
  require<DataError>(chosen != rejected, "{}: \"chosen\" and \"rejected\" are equal: nothing to prefer",
                     out.place.text());
  const bool repeated = repeats_prompt(fields, chosen, rejected, out.place);
  const Json prompt = repeated ? Json() : prompt_of(fields, options);
  if (prompt.is_array() && !chosen.is_array()) {
    // A chat, and texts that end it.
    const auto turn = [](const Json& text) {
      return Json::array({Json{{"role", "assistant"}, {"content", text}}});
    };
    out.text = answered(fields, &prompt, turn(chosen), "chosen", out.place, options.roles);
    out.rejected = answered(fields, &prompt, turn(rejected), "rejected", out.place, options.roles);
    return;
  }
  if (prompt.is_null() && !chosen.is_array())
    return split_texts(fields.text(chosen, "chosen"), fields.text(rejected, "rejected"), out);
  const Json* asked = prompt.is_null() ? nullptr : &prompt;
  out.text = answered(fields, asked, chosen, "chosen", out.place, options.roles);
  out.rejected = answered(fields, asked, rejected, "rejected", out.place, options.roles);
  if (!asked) split_chats(out);
}

}  // namespace stoa::tune
