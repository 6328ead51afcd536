// /tokenize and /detokenize, in the forms of vLLM and llama-server.
#include "serve/chat_messages.h"
#include "serve/handlers.h"
#include "token/stream_decoder.h"

namespace stoa::serve {

void tokenize(const Call& call) {
  const RequestBody& body = call.body;
  const auto& model = call.model;
  const token::Tokenizer& tokenizer = model->tokenizer();
  check(body.has("prompt") + body.has("messages") + body.has("content") == 1, "prompt",
        "give one of 'prompt', 'messages' and 'content'");
  const bool special = body.boolean("add_special_tokens", body.boolean("add_special", body.has("prompt")));
  const bool answers = body.boolean("add_generation_prompt", true);  // a wrong value is refused in any case
  std::vector<std::int32_t> ids;
  if (body.has("messages")) {
    ids = model->render(read_messages(body, "messages"), Json::object(),
                        answers ? ServedModel::Next::kAnswer : ServedModel::Next::kNothing);
  } else {
    const auto text = body.text(body.has("prompt") ? "prompt" : "content");
    ids = model->ids_of(*text, special);
  }
  Json out{{"count", ids.size()}, {"max_model_len", model->context()}};
  if (body.boolean("with_pieces", false)) {
    Json tokens = Json::array();
    for (const auto id : ids) {
      std::string storage;
      tokens.push_back({{"id", id}, {"piece", token::valid_utf8(tokenizer.token_bytes(id), storage)}});
    }
    out["tokens"] = std::move(tokens);
  } else {
    out["tokens"] = ids;
  }
  if (body.boolean("return_token_strs", false)) {
    Json strings = Json::array();
    for (const auto id : ids) strings.push_back(tokenizer.id_to_token(id));
    out["token_strs"] = std::move(strings);
  }
  call.answer->send({200, "application/json", json_text(out)});
}

void detokenize(const Call& call) {
  const auto& model = call.model;
  call.body.at("tokens");
  const auto ids = call.body.ids("tokens", model->tokenizer().vocab_size());
  const std::string text = token::replace_invalid_utf8(model->tokenizer().decode(ids));
  call.answer->send({200, "application/json", json_text({{"prompt", text}, {"content", text}})});
}

}  // namespace stoa::serve
