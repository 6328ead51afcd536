#pragma once

namespace stoa::comm {

// Two members of a group; the first sends tensors to the second.
struct Route {
  int from = 0, to = 0;

  friend bool operator==(const Route&, const Route&) = default;
  friend auto operator<=>(const Route&, const Route&) = default;
};

}  // namespace stoa::comm
