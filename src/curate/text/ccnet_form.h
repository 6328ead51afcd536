// Texts as CCNet compares lines: stripped, in lower case, digits as 0, without its punctuation marks and
// control characters; accents stay.
#pragma once

#include <string>
#include <string_view>

namespace stoa::curate {

class CcnetForm {
 public:
  // The view lives until the next call.
  std::string_view operator()(std::string_view text);

 private:
  std::string lower_, out_;
};

}  // namespace stoa::curate
