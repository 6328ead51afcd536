#include "serve/line_limits.h"

#include <utility>

namespace stoa::serve {

std::size_t LineLimits::take(std::string_view text, Clock::time_point now, bool& ended) {
  if (!std::exchange(begun_, true)) begin_ = now;
  ended = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (before_text_ && (c == ' ' || c == '\t')) {
      ++blanks_;
      continue;
    }
    if (before_text_ && blanks_ < options_.indent) {
      ended = true;
      return i;
    }
    before_text_ = c == '\n';
    has_line_ = has_line_ || c == '\n';
    blanks_ = 0;
  }
  ended = has_line_ && options_.time.count() > 0 && now - begin_ > options_.time;
  return text.size();
}

}  // namespace stoa::serve
