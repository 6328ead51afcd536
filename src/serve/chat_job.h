// A chat that is to be answered, as a request describes it: what the engine is asked for, and how calls of
// tools are read from the answer.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "infer/engine/request.h"
#include "serve/answer_text.h"
#include "serve/handlers.h"
#include "serve/served_model.h"
#include "serve/tools/tool_calls.h"

namespace stoa::serve {

// The tools of a chat, and how calls of them are written.
struct ChatTools {
  std::optional<ToolFamily> family = {};  // none: there are no tools
  Json tools = {};
  bool one_call = false;  // more are not wanted

  // The answer `text`; `cut_off`: by its length, so that its last call may be unfinished.
  AnswerWithTools read(const std::string& text, bool cut_off) const;
};

struct ChatJob {
  std::shared_ptr<ServedModel> model;
  infer::Request request;
  AnswerText::Options text;
  ChatTools tools;
  StreamUsage usage;
  bool stream = false, logprobs = false;
  std::size_t top = 0;  // candidates per token
};
// The ids of the chat, and its tools. ApiError 400.
std::vector<std::int32_t> render_chat(const RequestBody& body, const ServedModel& model, ChatTools& tools);
// Reads the fields of a chat completion. ApiError 400, 404.
ChatJob read_chat(const Call& call);

// The id of call number `index` of an answer: a call's alone in its conversation. Templates of Mistral want
// nine letters and digits.
std::string call_id(const std::string& answer, std::size_t choice, std::size_t index);

}  // namespace stoa::serve
