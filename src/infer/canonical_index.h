// Finds canonical tensors in a rank's memory.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "nn/module.h"

namespace stoa::infer {

class CanonicalIndex {
 public:
  struct Place {
    nn::ParamId parameter;
    std::int64_t row = 0, count = 0;  // in the parameter's memory
    Shape shape;                      // canonical
  };
  // Whole tensors only: one rank.
  explicit CanonicalIndex(const std::vector<nn::ParamSpec>& specs);

  const Place& at(const std::string& name) const;
  const std::map<std::string, Place>& places() const { return places_; }
  // The canonical tensor within `memory`, a tensor of its parameter's local shape.
  static TensorView in(const Place& place, TensorView memory) { return memory.slice(place.row, place.count); }

 private:
  std::map<std::string, Place> places_;
};

}  // namespace stoa::infer
