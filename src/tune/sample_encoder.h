// From a record to tokens with their mask: what the model is trained to say, up to and including the token
// that ends its turn, and nothing else.
//
// Where a chat's answers stand in its text is known from the template's own {% generation %} blocks or, where
// it has none, from two renderings for each answer: the chat before it with the generation prompt, and the
// chat up to it. Both must be prefixes of the whole. A template that rewrites earlier turns (one that drops
// their reasoning) makes a sample of every answer instead: the model then sees what it will see in use.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "chat/chat_template.h"
#include "token/encoder.h"
#include "tune/encoded.h"

namespace stoa::tune {

// How chats become text. Immutable, shared by threads.
struct ChatText {
  std::optional<chat::ChatTemplate> chat_template;  // none: records have no roles
  Json variables = Json::object();                  // bos_token and the like
};
ChatText chat_text(const token::Tokenizer& tokenizer);

// What happened to records that could not be taken as they are.
struct EncodingCounts {
  std::int64_t shortened = 0;     // last turns left out
  std::int64_t split = 0;         // texts cut into several samples
  std::int64_t too_long = 0;      // left out: the first answer does not fit
  std::int64_t untrained = 0;     // left out: no answer of weight 1
  std::int64_t rewritten = 0;     // chats whose template rewrites earlier turns: a sample per answer
  std::int64_t other_header = 0;  // answers that begin otherwise than the generation prompt does

  EncodingCounts& operator+=(const EncodingCounts& other);
};

class SampleEncoder {
 public:
  // `longest`: tokens of a sample, of a pair's both texts together. `tokenizer` and `text` must outlive this.
  // One per thread.
  SampleEncoder(const token::Tokenizer& tokenizer, const ChatText& text, std::int64_t longest);

  // Appends the samples of a record: one, none (counts() says why), or several. DataError: the template
  // refuses the chat, ignores its tool calls, or ends answers with no token at which generation could stop.
  void encode(const Record& record, std::int64_t number, std::vector<EncodedSample>& out);

  const EncodingCounts& counts() const { return counts_; }
  // Tokens that ended an answer.
  const std::set<token::TokenId>& turn_ends() const { return turn_ends_; }

 private:
  using Span = chat::TextSpan;
  std::vector<EncodedText> encode(const Answered& text, const Place& place);
  std::vector<EncodedText> encode_chat(const Conversation& chat, const Place& place);
  // `answers`: trained messages.
  std::vector<EncodedText> encode_by_blocks(const Conversation& chat, const std::vector<std::size_t>& answers,
                                            const Place& place);
  std::vector<EncodedText> encode_by_prefixes(const Conversation& chat,
                                              const std::vector<std::size_t>& answers, const Place& place);
  EncodedText encode_plain(const Continuation& text, const Place& place);
  // `spans`: of answers to be trained.
  EncodedText encode_spans(const std::string& text, const std::vector<Span>& spans, const Place& place);
  std::size_t end_within(const std::string& whole, const std::string& part) const;
  std::string render(const Conversation& chat, std::size_t messages, bool prompt,
                     std::vector<Span>* generated = nullptr) const;
  std::size_t answer_begin(const Conversation& chat, std::size_t message, const std::string& after,
                           const Place& place);
  void check_tools(const Conversation& chat, const std::string& text, const Place& place) const;
  bool ends_turn(token::TokenId id) const;
  bool shorten(EncodedText& text);
  void add_text(EncodedText text, std::int64_t number, std::vector<EncodedSample>& out);

  const token::Tokenizer& tokenizer_;
  const ChatText& text_;
  const std::int64_t longest_;
  token::Encoder encoder_;
  EncodingCounts counts_;
  std::set<token::TokenId> turn_ends_;
};

}  // namespace stoa::tune
