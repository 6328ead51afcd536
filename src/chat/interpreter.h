// Walks the tree of a template and writes its text.
#pragma once

#include <ctime>
#include <string>

#include "chat/runtime.h"
#include "chat/syntax.h"

namespace stoa::chat {

struct RenderLimits {
  std::int64_t steps = 20'000'000;
  std::size_t output_bytes = std::size_t{64} << 20;
  int depth = 600;  // of nested evaluations, calls of macros included
};

// The text of `tree` with the given variables; `now` is what strftime_now() formats. TemplateError names what
// went wrong; one that the template raises itself carries its message.
std::string interpret(const Node& tree, Entries variables, const std::tm& now, const RenderLimits& limits);

}  // namespace stoa::chat
