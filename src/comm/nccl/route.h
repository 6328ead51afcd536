#pragma once

namespace stoa::comm {

// Members of a group, of which one sends tensors to the other.
struct Route {
  int from = 0, to = 0;

  friend bool operator==(const Route&, const Route&) = default;
  friend auto operator<=>(const Route&, const Route&) = default;
};

}  // namespace stoa::comm
