// What a stream has sent of an answer that may call tools: its text as soon as that can be no call, and the
// calls as their arguments come.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "serve/chat_job.h"
#include "serve/tools/begun_calls.h"

namespace stoa::serve {

class AnswerStream {
 public:
  // A call is new, and called() has its name; its arguments grow.
  using Open = std::function<void(std::size_t call)>;
  using More = std::function<void(std::size_t call, const std::string& arguments)>;

  explicit AnswerStream(const ChatTools& tools);

  // The text to be sent now that `answer` is the answer so far. A call, once begun, is held to the end.
  std::string take(const std::string& answer);
  // Sends what was not sent of the calls that have begun in it.
  void send_begun(const Open& open, const More& more);
  // The same of all calls of the answer, which is complete and reads as `parsed`. Those that were sent stay,
  // even where they turned out to be broken.
  void send_rest(const AnswerWithTools& parsed, const Open& open, const More& more);

  std::size_t given() const { return given_; }                     // bytes of the text that were sent
  const std::vector<ToolCall>& called() const { return called_; }  // as far as they were sent

 private:
  void send(const std::vector<ToolCall>& calls, const Open& open, const More& more);

  std::optional<GrowingCalls> growing_;  // of an answer with tools
  const bool one_call_;
  std::size_t given_ = 0;
  std::vector<ToolCall> called_;
};

}  // namespace stoa::serve
