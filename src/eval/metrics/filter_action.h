// A step of a filter: what it makes of the answers to a question.
#pragma once

#include "eval/python/text.h"

namespace stoa::eval {

class FilterAction {
 public:
  virtual ~FilterAction() = default;
  // A list to a list, or to its first.
  virtual Json apply(const Json& responses, const Json& document) const = 0;
};

}  // namespace stoa::eval
