// Keys that count only beside others: a configuration that gives one of them where it would do nothing is
// told so, never obeyed in silence.
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
