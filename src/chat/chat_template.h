// The chat template of a model: messages to the text that the model was tuned on. It is a Jinja template from
// a model's files, of unknown origin: rendering is bounded in time, memory and depth.
#pragma once

#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "chat/interpreter.h"

namespace stoa::chat {

struct RenderOptions {
  bool add_generation_prompt = true;
  nlohmann::ordered_json variables =
      nlohmann::ordered_json::object();  // bos_token, eos_token, tools, enable_thinking …
  std::optional<std::tm> now;            // for strftime_now(); none: local time
  RenderLimits limits;
};

class ChatTemplate {
 public:
  // TemplateError (a DataError) for unsupported syntax, with its line.
  explicit ChatTemplate(std::string_view jinja) : ChatTemplate(jinja, jinja) {}
  // Another one renders chats with tools. Where it cannot be read, they are refused with its TemplateError.
  ChatTemplate(std::string_view jinja, std::string_view with_tools);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // `messages`: [{"role": "user", "content": "…"}, …]. The same text as transformers'
  // apply_chat_template(tokenize=False).
  std::string render(const nlohmann::ordered_json& messages, const RenderOptions& options = {}) const;
  // The same; `generated` gets what {% generation %} blocks wrote, in order (interpret()).
  std::string render(const nlohmann::ordered_json& messages, const RenderOptions& options,
                     std::vector<TextSpan>* generated) const;
  // Whether the template has {% generation %} blocks, and the one for tools, too.
  bool marks_generation() const;

 private:
  std::unique_ptr<const Node> tree_;
  std::unique_ptr<const Node> with_tools_;  // where it is another template
  std::string tools_error_;                 // what is wrong with that
};

}  // namespace stoa::chat
