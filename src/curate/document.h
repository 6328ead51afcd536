// What the stages of the data factory work on.
#pragma once

#include <string>

namespace stoa::curate {

struct Document {
  std::string id;
  std::string text;  // valid UTF-8
  std::string
      metadata;  // the other members of its JSON object as they were written: `"url":"…","n":1`; may be empty
  std::string url;  // where it came from; empty: not known
};

}  // namespace stoa::curate
