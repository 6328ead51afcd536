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
  const std::string instruction = fields.text({"instruction"}),
                    input = fields.optional_text({"input", "context"});
  if (!roles) return alpaca_prompt(instruction, input);
  return input.empty() ? instruction : instruction.empty() ? input : instruction + "\n\n" + input;
}

void set_system(Answered& text, const RecordFields& fields, const Place& place) {
  const std::string system = fields.optional_text({"system", "system_prompt"});
  if (system.empty()) return;
  auto* chat = std::get_if<Conversation>(&text);
  require<DataError>(chat != nullptr,
                     "{}: \"system\" has no place in a text without roles; a template (--template) has one",
                     place.text());
  const Json& first = chat->messages[0]["role"];
  if (first == "system" || first == "developer") return;
  chat->messages.insert(chat->messages.begin(), Json{{"role", "system"}, {"content", system}});
  chat->trained.insert(chat->trained.begin(), false);
}

}  // namespace stoa::tune
