// Keys that have an effect only together with others: a configuration that sets one of them where it has none
// is rejected with a message, never silently accepted.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace stoa::config {

struct Condition {
  std::vector<std::string> keys;  // full paths; "model.t5.*": all of a section
  std::vector<std::string> on;    // the keys that decide, by full path
  std::string words;              // "optim.name muon": completes "is used only with"
  std::function<bool(const void* object)> holds;
};

// The condition of an object of type T.
template <class T, class Holds>
Condition condition(std::vector<std::string> keys, std::vector<std::string> on, std::string words,
                    Holds holds) {
  return {std::move(keys), std::move(on), std::move(words),
          [holds = std::move(holds)](const void* object) { return holds(*static_cast<const T*>(object)); }};
}

}  // namespace stoa::config
