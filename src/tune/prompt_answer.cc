#include "tune/prompt_answer.h"

#include "base/error.h"
#include "tune/messages.h"

namespace stoa::tune {

void require_answer(const std::string& answer, const Place& place, const char* key) {
  require<DataError>(!answer.empty(), "{}: \"{}\" is empty: there is nothing to train", place.text(), key);
}

Answered pair_of(const std::string& prompt, const std::string& answer, bool roles) {
  if (!roles) return Continuation{prompt, answer};
  Conversation out;
  add_message(out, "user", prompt);
  add_message(out, "assistant", answer);
  return out;
}

void train_from(Conversation& conversation, std::size_t first) {
  for (std::size_t i = 0; i < conversation.trained.size(); ++i)
    conversation.trained[i] = conversation.trained[i] && i >= first;
}

Answered answered(const RecordFields& fields, const Json* prompt, const Json& answer, const char* key,
                  const Place& place, bool roles) {
  if (!answer.is_array()) {
    const std::string text = fields.text(answer, key);
    require_answer(text, place, key);
    require<DataError>(!prompt || !prompt->is_array(),
                       "{}: \"prompt\" is a list of messages, \"{}\" is a text; expected both alike",
                       place.text(), key);
    if (!prompt) return Continuation{"", text};
    return pair_of(fields.text(*prompt, "prompt"), text, roles);
  }
  Conversation out;
  if (prompt) {
    if (prompt->is_array())
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

std::string instruction_of(const RecordFields& fields, bool roles) {
  const std::string instruction = fields.text({"instruction", "question"}),
                    input = fields.optional_text({"input", "context"});
  if (!roles) return alpaca_prompt(instruction, input);
  return input.empty() ? instruction : instruction.empty() ? input : instruction + "\n\n" + input;
}

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

namespace {

// Where a chat's system message ends.
std::ptrdiff_t after_system(const Conversation& chat) {
  if (chat.messages.empty()) return 0;
  const Json& first = chat.messages[0]["role"];
  return first == "system" || first == "developer" ? 1 : 0;
}

// The chat that has a place for `key`; null: whole texts, which have what they need. DataError: a text
// without roles.
Conversation* chat_for(const char* key, Answered& text, const Place& place, bool roles) {
  auto* chat = std::get_if<Conversation>(&text);
  require<DataError>(chat != nullptr || roles,
                     "{}: \"{}\" has no place in a text without roles; a template (--template) has one",
                     place.text(), key);
  return chat;
}

}  // namespace

void set_history(Answered& text, const RecordFields& fields, const Place& place, bool roles, bool trained) {
  const Json* history = fields.find({"history"});
  if (!history || history->empty() || is_nothing(*history)) return;
  Conversation* chat = chat_for("history", text, place, roles);
  if (!chat) return;
  require<DataError>(history->is_array(), "{}: \"history\" is {}, expected a list of pairs", place.text(),
                     history->type_name());
  Conversation before;
  for (const Json& pair : *history) {
    const bool good = pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string();
    require<DataError>(good, "{}: \"history\" holds {}, expected [question, answer]", place.text(),
                       beginning_of(pair));
    add_message(before, "user", pair[0].get<std::string>());
    add_message(before, "assistant", pair[1].get<std::string>());
  }
  if (!trained) train_from(before, before.messages.size());
  const std::ptrdiff_t at = after_system(*chat);
  chat->messages.insert(chat->messages.begin() + at, before.messages.begin(), before.messages.end());
  chat->trained.insert(chat->trained.begin() + at, before.trained.begin(), before.trained.end());
}

void set_system(Answered& text, const RecordFields& fields, const Place& place, bool roles) {
  std::string system;
  for (const char* name : {"system", "system_prompt"})
    if (system.empty()) system = fields.optional_text({name});
  if (system.empty()) return;
  Conversation* chat = chat_for("system", text, place, roles);
  if (!chat || after_system(*chat) > 0) return;
  chat->messages.insert(chat->messages.begin(), Json{{"role", "system"}, {"content", system}});
  chat->trained.insert(chat->trained.begin(), false);
}

}  // namespace stoa::tune
