#include "eval/requests/chat_prompt.h"

#include <memory>

#include "base/error.h"
#include "chat/chat_template.h"
#include "infer/chat_session.h"

namespace stoa::eval {

ChatFunction chat_function(const token::Tokenizer& tokenizer) {
  require<ConfigError>(!tokenizer.chat_template().empty(),
                       "--apply_chat_template: the model has no chat template");
  auto chat = std::make_shared<const chat::ChatTemplate>(tokenizer.chat_template());
  chat::RenderOptions base;
  infer::name_special_tokens(tokenizer, base.variables);
  return [chat, base](const Json& messages, bool open) {
    chat::RenderOptions options = base;
    options.add_generation_prompt = !open;
    const auto rendered = [&](const Json& all) {
      try {
        return chat->render(all, options);
      } catch (const chat::TemplateError&) {
        Json without = Json::array();  // templates without system messages
        for (const Json& m : all)
          if (m["role"] != "system") without.push_back(m);
        if (without.size() == all.size()) throw;
        return chat->render(without, options);
      }
    };
    if (!open) return rendered(messages);
    // The answer's beginning is marked, and the text ends at the mark.
    constexpr std::string_view kMark = "CONTINUE_FINAL_MESSAGE_TAG";
    Json marked = messages;
    marked.back()["content"] = messages.back()["content"].get<std::string>() + std::string(kMark) + " ";
    const std::string text = rendered(marked);
    const std::size_t at = text.rfind(kMark);
    require<DataError>(at != std::string::npos, "the chat template leaves the beginning of the answer out");
    const std::size_t behind = at + kMark.size();
    return behind < text.size() && text[behind] == ' '
               ? text.substr(0, at)
               : std::string(strip_right(std::string_view(text).substr(0, at)));
  };
}

}  // namespace stoa::eval
