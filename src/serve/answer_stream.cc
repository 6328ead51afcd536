#include "serve/answer_stream.h"

#include <algorithm>

namespace stoa::serve {

AnswerStream::AnswerStream(const ChatTools& tools) : one_call_(tools.one_call) {
  if (tools.family) growing_.emplace(*tools.family);
}

std::string AnswerStream::take(const std::string& answer) {
  if (growing_) growing_->read(answer);
  // What is held begins where a call does or may, so the bound only grows.
  const std::size_t held = growing_ ? growing_->held() : 0, end = std::max(given_, answer.size() - held);
  std::string out = answer.substr(given_, end - given_);
  given_ = end;
  return out;
}

void AnswerStream::send_begun(const Open& open, const More& more) {
  if (growing_ && growing_->held() > 0) send(growing_->calls(), open, more);
}

void AnswerStream::send_rest(const AnswerWithTools& parsed, const Open& open, const More& more) {
  if (!growing_) return;
  const std::vector<ToolCall>& begun = growing_->calls();
  const bool same =
      parsed.calls.size() >= begun.size() &&
      std::equal(begun.begin(), begun.end(), parsed.calls.begin(),
                 [](const ToolCall& a, const ToolCall& b) { return a.arguments == b.arguments; });
  send(called_.empty() || same ? parsed.calls : begun, open, more);
}

void AnswerStream::send(const std::vector<ToolCall>& calls, const Open& open, const More& more) {
  for (std::size_t i = 0; i < calls.size() && !(one_call_ && i > 0); ++i) {
    if (i == called_.size()) {
      called_.push_back({calls[i].name, ""});
      open(i);
    }
    std::string& sent = called_[i].arguments;
    if (calls[i].arguments.size() <= sent.size()) continue;
    const std::string rest = calls[i].arguments.substr(sent.size());
    sent += rest;
    more(i, rest);
  }
}

}  // namespace stoa::serve
