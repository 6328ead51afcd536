#include "infer/chat_session.h"

#include <algorithm>

namespace stoa::infer {

using Json = nlohmann::ordered_json;

void name_special_tokens(const token::Tokenizer& tokenizer, Json& variables) {
  const auto name = [&](const char* key, std::optional<token::TokenId> id) {
    if (id && !variables.contains(key)) variables[key] = tokenizer.id_to_token(*id);
  };
  name("bos_token", tokenizer.bos_id());
  name("eos_token", tokenizer.eos_id());
  name("unk_token", tokenizer.unk_id());
  name("pad_token", tokenizer.pad_id());
}

std::optional<chat::ChatTemplate> chat_template_of(const token::Tokenizer& tokenizer) {
  if (tokenizer.chat_template().empty()) return std::nullopt;
  return chat::ChatTemplate(tokenizer.chat_template(), tokenizer.tool_template());
}

ChatSession::ChatSession(Engine& engine, const token::Tokenizer& tokenizer,
                         std::optional<chat::ChatTemplate> chat_template, ChatOptions options)
    : engine_(engine),
      tokenizer_(tokenizer),
      template_(std::move(chat_template)),
      options_(std::move(options)) {
  name_special_tokens(tokenizer_, options_.variables);
  require<ConfigError>(template_ || options_.system.empty(),
                       "a system message needs a chat template, and this model has none");
  reset();
}

void ChatSession::reset() {
  messages_ = Json::array();
  if (!options_.system.empty()) messages_.push_back({{"role", "system"}, {"content", options_.system}});
  transcript_.clear();
}

std::int64_t ChatSession::room() const {
  const std::int64_t answer = std::min(options_.generate.max_tokens, engine_.context() / 2);
  return std::max<std::int64_t>(1, engine_.context() - answer);
}

std::vector<std::int32_t> ChatSession::render(const Json& messages) const {
  return tokenizer_.encode(
      template_->render(
          messages,
          {.add_generation_prompt = true, .variables = options_.variables, .now = {}, .limits = {}}),
      {.plain = false, .add_special = false});
}

std::vector<std::int32_t> ChatSession::prompt_of(Json& messages, Reply& reply) const {
  for (;;) {
    std::vector<std::int32_t> ids = render(messages);
    if (static_cast<std::int64_t>(ids.size()) <= room()) return ids;
    // Drops the oldest turn: a user's message and everything up to the next one. System messages are kept.
    const std::size_t first = !messages.empty() && messages[0]["role"] == "system" ? 1 : 0;
    std::size_t next = first + 1;
    while (next < messages.size() && messages[next]["role"] != "user") ++next;
    require<DataError>(next < messages.size(),
                       "the message takes {} tokens, more than the {} that the context of {} leaves in "
                       "addition to an answer",
                       ids.size(), room(), engine_.context());
    messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(first),
                   messages.begin() + static_cast<std::ptrdiff_t>(next));
    ++reply.forgotten;
  }
}

std::vector<std::int32_t> ChatSession::continuation_of(const std::string& message, Reply& reply) const {
  std::vector<std::int32_t> ids = transcript_;
  const bool fresh = ids.empty();
  const auto more =
      tokenizer_.encode(fresh ? message : "\n" + message, {.plain = false, .add_special = fresh});
  ids.insert(ids.end(), more.begin(), more.end());
  if (ids.empty()) {
    const auto start = tokenizer_.bos_id() ? tokenizer_.bos_id() : tokenizer_.eod_id();
    require<DataError>(start.has_value(), "an empty text, and the tokenizer has no beginning-of-text token");
    ids.push_back(*start);
  }
  if (const auto most = room(); static_cast<std::int64_t>(ids.size()) > most) {
    reply.forgotten = static_cast<std::int64_t>(ids.size()) - most;
    ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(reply.forgotten));
  }
  return ids;
}

ChatSession::Reply ChatSession::say(const std::string& message, const TakeText& take) {
  Reply reply;
  Json messages = messages_;
  std::vector<std::int32_t> ids;
  if (template_) {
    messages.push_back({{"role", "user"}, {"content", message}});
    ids = prompt_of(messages, reply);
    require<DataError>(!ids.empty(), "the chat template renders nothing");
  } else {
    ids = continuation_of(message, reply);
  }
  reply.result =
      write_text(engine_, tokenizer_, std::move(ids), options_.generate, [&](std::string_view piece) {
        reply.text += piece;
        return take(piece);
      });
  if (template_) {
    messages.push_back({{"role", "assistant"}, {"content", reply.text}});
    messages_ = std::move(messages);
  } else {
    transcript_ = reply.result.prompt;
    transcript_.insert(transcript_.end(), reply.result.answer.begin(), reply.result.answer.end());
  }
  return reply;
}

}  // namespace stoa::infer
