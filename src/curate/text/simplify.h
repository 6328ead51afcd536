// Texts made alike before they are compared, as datatrove does it before it looks for near-duplicates.
#pragma once

#include <string>
#include <string_view>

namespace stoa::curate {

// The canonical decomposition of a character without nonspacing marks (category Mn), to the end of `out`.
void append_without_marks(char32_t c, std::string& out);

// simplify_text() with its defaults: lower case, numbers (also with one decimal separator) as 0, punctuation
// as blanks, runs of white space as one blank, canonical decomposition without nonspacing marks, no white
// space at the ends.
class Simplifier {
 public:
  // The view lives until the next call.
  std::string_view operator()(std::string_view text);

 private:
  std::string lower_, out_;
};

}  // namespace stoa::curate
