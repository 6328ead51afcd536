// A conversation with an engine's model: the keys and values of earlier turns are still there, and a turn
// reads only the new tokens.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/chat_template.h"
#include "infer/engine/write_text.h"

namespace stoa::infer {

struct ChatOptions {
  GenerateOptions generate;
  std::string system;  // system message, "" for none
  nlohmann::ordered_json variables =
      nlohmann::ordered_json::object();  // for the template, in addition to the special tokens
};

// bos_token and the like, as templates name them, unless `variables` has them.
void name_special_tokens(const token::Tokenizer& tokenizer, nlohmann::ordered_json& variables);

// None: the tokenizer has no template.
std::optional<chat::ChatTemplate> chat_template_of(const token::Tokenizer& tokenizer);

class ChatSession {
 public:
  // Without a template every turn continues the text so far: a base model has no roles. The references must
  // outlive the session.
  ChatSession(Engine& engine, const token::Tokenizer& tokenizer,
              std::optional<chat::ChatTemplate> chat_template, ChatOptions options);

  struct Reply {
    GenerateResult result;  // its prompt: the conversation up to the answer
    std::string text;
    std::int64_t forgotten = 0;  // turns dropped now because the context is full (base model: tokens)
  };
  // DataError if the message alone does not fit or the template rejects it; the
  // conversation is then unchanged.
  Reply say(const std::string& message, const TakeText& take);
  void reset();
  bool has_template() const { return template_.has_value(); }

 private:
  std::vector<std::int32_t> prompt_of(nlohmann::ordered_json& messages, Reply& reply) const;
  std::vector<std::int32_t> continuation_of(const std::string& message, Reply& reply) const;
  std::vector<std::int32_t> render(const nlohmann::ordered_json& messages) const;
  std::int64_t room() const;  // tokens of the longest prompt

  Engine& engine_;
  const token::Tokenizer& tokenizer_;
  const std::optional<chat::ChatTemplate> template_;
  ChatOptions options_;
  nlohmann::ordered_json messages_;
  std::vector<std::int32_t> transcript_;  // base model: the text so far
};

}  // namespace stoa::infer
