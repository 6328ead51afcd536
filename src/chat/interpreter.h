// Walks the tree of a template and writes its text.
#pragma once

#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "chat/runtime.h"
#include "chat/syntax.h"

namespace stoa::chat {

struct RenderLimits {
  std::int64_t steps = 20'000'000;
  std::size_t output_bytes = std::size_t{64} << 20;
  int depth = 600;                // of nested evaluations, calls of macros included
  bool strict_undefined = false;  // what Jinja calls StrictUndefined: an undefined value may only be tested
};

// Bytes [begin, end) of a rendered text.
struct TextSpan {
  std::size_t begin = 0, end = 0;
  bool operator==(const TextSpan&) const = default;
};

// A filter that Jinja does not have; none: not this one's name.
using OtherFilter = std::function<std::optional<Value>(std::string_view name, const Value& subject,
                                                       const Arguments& arguments)>;

// The text of `tree` with the given variables; `now` is what strftime_now() formats. TemplateError names what
// went wrong; one that the template raises itself carries its message. `generated`: if given, gets the spans
// that {% generation %} blocks write, in order; TemplateError where one is not written straight into the
// text.
std::string interpret(const Node& tree, Entries variables, const std::tm& now, const RenderLimits& limits,
                      std::vector<TextSpan>* generated = nullptr, const OtherFilter& other = nullptr);

}  // namespace stoa::chat
