// When communication is posted and waited for, shown to whoever observes the operations.
#pragma once

#include <fmt/format.h>

#include "ops/op_context.h"

namespace stoa::optim {

// "post gradients of bucket 3", "wait for weights of bucket 0".
template <class Body>
void marked(ops::OpObserver* observer, const char* what, int bucket, const Body& body) {
  if (!observer) return body();
  const std::string name = fmt::format("{} of bucket {}", what, bucket);
  observer->before(name.c_str(), 0);
  body();
  observer->after(name.c_str());
}

}  // namespace stoa::optim
