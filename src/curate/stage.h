// A stage of the data factory: a pure function of one document. It sees no file and no other document, so
// that the result does not depend on who runs it, or when.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "curate/document.h"
#include "curate/text/features.h"
#include "curate/verdict.h"

namespace stoa::curate {

class Stage {
 public:
  virtual ~Stage() = default;
  // May rewrite the text; `features` describes it on entry and must on return. The verdict records what is
  // dropped.
  virtual void apply(Document& document, Features& features, Verdict& verdict) const = 0;
};

}  // namespace stoa::curate
