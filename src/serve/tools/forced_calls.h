// Grammars of answers that call tools with arguments that fit their schemas.
#pragma once

#include "constraint/source.h"
#include "serve/tools/tool_calls.h"

namespace stoa::serve {

struct ForcedCalls {
  ToolFamily family = ToolFamily::kHermes;
  Json tools = {};         // of the request, checked
  std::string named = {};  // the one to be called; "": any
  bool one = false;        // a single call

  // Equal for equal constraints.
  std::string key() const;
  // The answer is a call, or several, and nothing else. ConstraintError names the tool, and says what is
  // wrong with its schema.
  constraint::Grammar grammar(const constraint::TokenNames& tokens, constraint::Budget& budget) const;
};

}  // namespace stoa::serve
